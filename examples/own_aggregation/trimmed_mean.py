"""Coordinate-wise trimmed mean: drop the largest and smallest of every coordinate, average the rest."""

from collections.abc import Sequence

import numpy as np

from slotwise.aggregation import Contribution, Vector

TRIMMED = 0.2  # share of the updates that is dropped at each end


def trimmed_mean(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """Return w_{k+1} (Yin, Chen, Ramchandran and Bartlett, ICML 2018, arXiv:1803.01498)."""
    updates = np.sort([contribution.update for contribution in contributions], axis=0)
    dropped = int(TRIMMED * len(updates))
    kept = updates[dropped : len(updates) - dropped]
    return (model - kept.mean(axis=0, dtype=np.float64)).astype(np.float32)
