"""How the updates of a round combine into the next model. It knows no schedule and no network.

A model and an update are flat float32 vectors. An update is what local training took away from the model it
started on, w_start − w_end, so the step size is already in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Contribution(NamedTuple):
    """One update as the server sees it."""

    update: Vector
    staleness: int


Aggregation = Callable[[Vector, Sequence[Contribution]], Vector]


def mean(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = w_k − (1/S) Σ updates: the paper's rule (eq. 5 with eq. 11), whatever their staleness.

    Summed in double precision and in the order of the uplinks, then rounded once.
    """
    total = np.zeros(model.shape, dtype=np.float64)
    for contribution in contributions:
        total += contribution.update
    return (model - total / len(contributions)).astype(np.float32)
