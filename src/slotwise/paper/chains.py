"""Averaged models: the d + 1 chains that a run consists of, each by itself.

Under model-average, w_k belongs to chain k mod (d + 1), and the chains never meet. A median over evaluations
counts a chain as often as the evaluations happen to meet it; here every chain counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from slotwise.learning import Point
from slotwise.paper.evidence import DIGITS, Curve, staleness
from slotwise.report.number_text import loss_text
from slotwise.runs.saved_run import FINAL_PART


def chain_losses(points: Sequence[Point], deadline: int, chains: int) -> dict[int, float]:
    """Return the median training loss over the last tenth of the slots of each chain that was evaluated."""
    losses: dict[int, list[float]] = {}
    for point in points:
        if point.slot > (1 - FINAL_PART) * deadline:
            losses.setdefault(point.round % chains, []).append(point.loss)
    return {chain: median(found) for chain, found in sorted(losses.items())}


def chains_text(curves: Sequence[Curve]) -> str:
    """Return the median over the chains of all seeds, the lowest and highest, and how many were evaluated."""
    config = curves[0].run.config
    chains = staleness(config) + 1
    by_seed = [chain_losses(curve.points, config.deadline, chains) for curve in curves]
    losses = [loss for found in by_seed for loss in found.values()]
    texts = [loss_text(value, DIGITS) for value in (median(losses), min(losses), max(losses))]
    met = min(map(len, by_seed))
    return "{} ({} to {}), {}".format(*texts, f"{met} of {chains}")
