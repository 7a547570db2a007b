"""How one candidate of a search came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slotwise.recommendation.candidates import Candidate


@dataclass(frozen=True)
class Standing:
    """How one candidate came out.

    Attributes:
        candidate: in the running.
        slot: of the last rung it climbed; None if there was no need to try it.
        values: the metric there with each seed; None for a target that was not reached.
        mean: of the values, if there are all.
        diverged: whether that ended it.
    """

    candidate: Candidate
    slot: int | None
    values: tuple[float | None, ...]
    mean: float | None
    diverged: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        candidate = self.candidate
        return {
            "schedule": candidate.schedule,
            "group_size": candidate.group_size,
            "delay": "auto" if candidate.delay is None else candidate.delay,
            "rounds": candidate.rounds,
            "mean_staleness": candidate.mean_staleness,
            "max_staleness": candidate.max_staleness,
            "judged_at_slot": self.slot,
            "metric_by_seed": list(self.values),
            "metric": self.mean,
            "diverged": self.diverged,
        }
