"""Clipped mean: each update is shortened to a given norm before the mean is taken."""

from collections.abc import Sequence

import numpy as np

from slotwise.aggregation import Contribution, Vector


def clipped_mean(model: Vector, contributions: Sequence[Contribution], *, norm: float = 1.0) -> Vector:
    """Return w_k minus the mean of the updates, none of them longer than ``norm``."""
    total = np.zeros(model.shape, dtype=np.float64)
    for sent in contributions:
        length = float(np.linalg.norm(sent.update))
        total += sent.update * min(1.0, norm / length) if length else 0.0
    return (model - total / len(contributions)).astype(np.float32)
