"""Local training of a device: plain SGD on its own samples, shared by all image tasks."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slotwise.data import Dataset
from slotwise.errors import InputError
from slotwise.learning.randomness import LARGEST_SEED, draw_batches
from slotwise.scenario import check_fields, whole

LocalUpdate = Literal["sum", "mean"]


@dataclass(frozen=True, kw_only=True)
class LocalSgd:
    """Local training of a device: H steps of plain SGD.

    For H > 1 the paper's "local update" may be read as the sum of the gradients met on the way
    (w_start − w_end = eta · sum, the default), or as their mean.

    Attributes:
        local_steps: H, SGD steps of one local training.
        batch_size: B, samples of one SGD step.
        learning_rate: Step size.
        update: Local update: sum or mean of the gradients.
        seed: Random seed of model, partition, batches, participation and fleet.
    """

    local_steps: int = 5
    batch_size: int = 64
    learning_rate: float = 0.01
    update: LocalUpdate = "sum"
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        whole("local_steps", self.local_steps)
        whole("batch_size", self.batch_size)
        whole("seed", self.seed, 0, LARGEST_SEED)
        if not 0 < self.learning_rate < inf:
            raise InputError("learning_rate", self.learning_rate, "a finite number above 0")

    @property
    def divisor(self) -> int:
        """Divisor of w_start − w_end."""
        return self.local_steps if self.update == "mean" else 1


class DeviceSamples:
    """Samples of each device, as indices into the arrays of one data set that all share."""

    def __init__(self, dataset: Dataset, rows: NDArray[np.int32]) -> None:
        self.dataset, self.rows = dataset, rows
        self.union = np.unique(rows)
        """Samples of all devices, each once: the training loss is the mean over them."""

    def batches(self, sgd: LocalSgd, device: int, training: int) -> NDArray[np.int32]:
        """Return the rows of the data set, [steps, batch], of one local training."""
        own: NDArray[np.int32] = self.rows[device - 1]
        return own[draw_batches(sgd.seed, device, training, len(own), sgd.local_steps, sgd.batch_size)]
