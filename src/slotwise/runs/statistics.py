"""Statistics of a training curve: the only definitions of final loss and final accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotwise.learning import Point

FINAL_PART = 0.1


def final_loss(points: Sequence[Point], deadline: int) -> float:
    """Return the mean training loss over the last tenth of the slots."""
    return float(np.mean([point.loss for point in _final(points, deadline)]))


def final_accuracy(points: Sequence[Point], deadline: int) -> float:
    """Return the mean test accuracy over the last tenth of the slots."""
    return float(np.mean([point.accuracy for point in _final(points, deadline)]))


def _final(points: Sequence[Point], deadline: int) -> list[Point]:
    """Return the evaluations in the last tenth of the slots, or the last one if there is none."""
    return [p for p in points if p.slot > (1 - FINAL_PART) * deadline] or [points[-1]]
