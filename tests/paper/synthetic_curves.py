"""Synthetic curves for the rules to judge."""

from pathlib import Path
from typing import Literal

import numpy as np

from slotwise.batch.job import Run
from slotwise.learning import Point
from slotwise.paper.evidence import Curve, Results
from slotwise.runs import RunConfig
from slotwise.schedule import Schedule


class SyntheticResults(Results):
    """Curves that end where a test says; what was not set is missing."""

    def __init__(self, base: RunConfig) -> None:
        super().__init__(Path("no folder"))
        self.base = base
        self.curves: dict[str, Curve] = {}

    def curve(self, run: Run) -> Curve:
        return self.curves.get(run.name, Curve(run, "missing"))

    def set(
        self,
        schedule: Schedule,
        size: int,
        *finals: float,
        slots: tuple[int, int] = (50, 1),
        shaking: float = 0.0,
        accuracy: float = 0.9,
        status: Literal["finished", "interrupted", "diverged"] = "finished",
    ) -> None:
        """One final loss for each seed; ``shaking`` moves the loss up and down by that part of itself."""
        for seed, final in enumerate(finals):
            config = self.base.with_options(
                schedule=schedule,
                group_size=size,
                compute_slots=slots[0],
                link_slots=slots[1],
                seed=seed,
            )
            run = Run.of(config)
            self.curves[run.name] = Curve(run, status, curve(config, final, shaking, accuracy))


def curve(config: RunConfig, final: float, shaking: float = 0.0, accuracy: float = 0.9) -> tuple[Point, ...]:
    """From ln 10 down to ``final`` in the first half, then level but for the shaking."""
    places = np.linspace(0, config.deadline, 101)
    losses = np.interp(places, [0, config.deadline / 2], [2.303, final])
    shakes = shaking * (-1.0) ** np.arange(101)
    losses = losses * (1 + shakes)
    round_slots = config.channel.link_slots * (config.channel.group_size + 1)
    return tuple(
        Point(int(slot), int(slot) // round_slots, float(loss), accuracy * (1 + shake), 0)
        for slot, loss, shake in zip(places, losses, shakes, strict=True)
    )
