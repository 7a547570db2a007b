"""The worked example: who computes, sends and receives in which slot, without and with intentional delay."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.batch.job import Run
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


@dataclass(frozen=True, kw_only=True)
class WorkedTimeline:
    """The paper's example with six devices (its figures of the two schedules).

    Attributes:
        devices: N.
        group_size: S.
        compute_slots: tau_comp; 2 as in the text, not 1 as in the caption.
        link_slots: r.
        rounds: how many to draw.
    """

    devices: int = 6
    group_size: int = 2
    compute_slots: int = 2
    link_slots: int = 1
    rounds: int = 6

    name = "timeline"
    study = "schedule"

    def timelines(self) -> tuple[Timeline, Timeline]:
        """Asynchronous, and with the delay that costs nothing."""
        scenario = Scenario(
            devices=self.devices,
            group_size=self.group_size,
            compute_slots=self.compute_slots,
            link_slots=self.link_slots,
        )
        return simulate(scenario, "async", rounds=self.rounds), simulate(scenario, "idfl", rounds=self.rounds)

    def runs(self, seed: int) -> tuple[Run, ...]:
        """The example needs no training."""
        del seed
        return ()
