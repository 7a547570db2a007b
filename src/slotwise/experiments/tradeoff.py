"""Computation against communication at S=1: what slow links cost in slots, and give in rounds."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.experiments.run import Run, distinct
from slotwise.runs import RunParameters, run_parameters
from slotwise.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """S=1 on MNIST with fast and slow devices and links (the paper's last two figures).

    Attributes:
        slots: pairs of compute slots (tau_comp) and link slots (r), two curves each.
        deadline: T, slots.
        evaluate_every: slots between points of a curve; None is the run's own default.
    """

    slots: tuple[tuple[int, int], ...] = ((50, 1), (50, 5), (10, 1), (10, 5))
    deadline: int = 50_000
    evaluate_every: int | None = None

    name = "tradeoff"
    study = "mnist"

    def parameters(self, schedule: Schedule, compute_slots: int, link_slots: int, seed: int) -> RunParameters:
        """Of one curve."""
        return run_parameters(
            {
                "schedule": schedule,
                "group_size": 1,
                "compute_slots": compute_slots,
                "link_slots": link_slots,
                "deadline": self.deadline,
                "evaluate_every": self.evaluate_every,
                "seed": seed,
            }
        )

    def runs(self, seed: int) -> tuple[Run, ...]:
        """What has to be trained."""
        both: tuple[Schedule, ...] = ("async", "idfl")
        return distinct(
            [Run.of(self.parameters(schedule, *pair, seed)) for pair in self.slots for schedule in both]
        )
