"""Geometric median: the point with the smallest sum of distances to the updates."""

from collections.abc import Sequence

import numpy as np

from slotwise.aggregation import Contribution, Vector

STEPS, SMALLEST = 8, 1e-6


def geometric_median(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """Return w_{k+1} by Weiszfeld's steps (Pillutla, Kakade and Harchaoui, arXiv:1912.13445)."""
    updates = np.array([sent.update for sent in contributions], dtype=np.float64)
    centre = np.median(updates, axis=0)
    for _ in range(STEPS):
        weights = 1 / np.maximum(np.linalg.norm(updates - centre, axis=1), SMALLEST)
        centre = weights @ updates / weights.sum()
    return (model - centre).astype(np.float32)
