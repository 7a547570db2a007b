"""The published runs with the paper's step, cut at a deadline: what the tuned runs are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
from statistics import fmean

from slotwise.paper.evidence import Curve
from slotwise.paper.published import PublishedResults
from slotwise.paper.tuned import JUDGING_SEEDS, LEARNS
from slotwise.paper.tuned_results import number, spread
from slotwise.report.colours import SCHEDULE_COLOURS
from slotwise.runs import RunConfig
from slotwise.runs.saved_run import final_loss

PAPER_STEP = 0.01
SIZES = (1, 5, 10, 25, 50, 100)


@dataclass(frozen=True)
class AtPaperStep:
    """Losses of a schedule and group size with the paper's step, by seed, after some slots."""

    losses: tuple[float, ...]

    @property
    def learns(self) -> bool:
        """True if every seed has learned something."""
        return max(self.losses) < LEARNS

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return fmean(self.losses)

    def text(self) -> str:
        """Return mean and range; or that seeds do not learn."""
        if self.learns:
            return f"{number(self.mean)} ({number(min(self.losses))} to {number(max(self.losses))})"
        known = [loss for loss in self.losses if loss < LEARNS]
        lost = f"{len(self.losses) - len(known)} of {len(self.losses)} seeds do not learn"
        return f"{number(fmean(known))}, {lost}" if known else "does not learn"


@cache
def at_paper_step(schedule: str, group_size: int, deadline: int) -> AtPaperStep | None:
    """Return the losses of the judging seeds after so many slots; None if it was not published."""
    config = RunConfig.from_options({"schedule": schedule, "group_size": group_size})
    curves = _results().of_seeds(config, JUDGING_SEEDS)
    if any(not curve.has_ended for curve in curves):
        return None
    return AtPaperStep(tuple(_loss_at(curve, deadline) for curve in curves))


def seed_spread(deadline: int) -> float:
    """Return the largest factor between the seeds of a published method that learns, after so many slots."""
    known = (at_paper_step(name, size, deadline) for name in SCHEDULE_COLOURS for size in SIZES)
    return max(spread(one.losses) for one in known if one is not None and one.learns)


def _loss_at(curve: Curve, deadline: int) -> float:
    if curve.status == "diverged":
        return inf
    return final_loss([point for point in curve.points if point.slot <= deadline], deadline)


@cache
def _results() -> PublishedResults:
    return PublishedResults()
