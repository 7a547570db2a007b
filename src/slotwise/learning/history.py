"""What a training run has to show: the curve, the state to go on from, and how it may end early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.notebook import Displayable


class Point(NamedTuple):
    """One evaluation.

    Attributes:
        slot: when the model was complete.
        round: the number of the model, w_round (rounds applied so far).
        loss: global loss over all devices' data.
        accuracy: on the test set, 0 to 1.
        staleness: of the oldest update in the last applied round; 0 if nobody has sent in it.
    """

    slot: int
    round: int
    loss: float
    accuracy: float
    staleness: int


@dataclass(frozen=True)
class History(Displayable):
    """A run's curve and its last model.

    Attributes:
        points: the evaluations, in order.
        models: the models still needed to go on, by version; the newest is w_round.
        round: rounds applied.
    """

    points: tuple[Point, ...]
    models: Mapping[int, Vector]
    round: int

    @property
    def model(self) -> Vector:
        """w_round, the newest model."""
        return self.models[self.round]


REMEDY = "try a smaller --learning-rate, fewer --local-steps or a larger --group-size"


class Diverged(UserError):
    """Training left the finite numbers; ``history`` is what there was before."""

    def __init__(self, round_number: int, what: str, history: History) -> None:
        self.round, self.history = round_number, history
        super().__init__(f"training diverged in round {round_number}: the {what} is not finite; {REMEDY}")
