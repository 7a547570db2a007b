"""Task: the only thing an engine, a reference or a device knows about machine learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector


class Evaluation(NamedTuple):
    """The global loss over all devices' data, and the accuracy on the test set (0 to 1)."""

    loss: float
    accuracy: float


class Task(Protocol):
    """What is learned. Models are flat float32 vectors; devices are numbered from 1.

    `local_update` must be a pure function of its arguments and safe to call from several threads at once:
    that is what makes results independent of the number of workers and a checkpoint small.
    """

    def initial_model(self) -> Vector:
        """w_0."""

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        """w_start − w_end of the device's training number ``training`` (from 0), started on ``model``."""

    def evaluate(self, model: Vector) -> Evaluation:
        """Global loss and test accuracy."""

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """The model's arrays by name and in their shapes, for people and for other programs."""
