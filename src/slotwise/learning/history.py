"""Results of a training: its evaluations, and the state to resume from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.notebook import Displayable


class Point(NamedTuple):
    """Evaluation of one model.

    Attributes:
        slot: Slot in which the model was complete.
        round: Number of the model, w_round: rounds applied by then.
        loss: Training loss over all devices' data.
        accuracy: Test accuracy, 0 to 1.
        staleness: Staleness of the oldest update in the last applied round; 0 if there was none.
    """

    slot: int
    round: int
    loss: float
    accuracy: float
    staleness: int


@dataclass(frozen=True)
class History(Displayable):
    """Evaluations of a training and its last models.

    Attributes:
        points: The evaluations, in order. Their columns are arrays: `slot`, `round`, `loss`, `accuracy`.
        models: The models needed to resume, by version; the newest is w_rounds.
        rounds: Rounds applied.
    """

    points: tuple[Point, ...]
    models: Mapping[int, Vector]
    rounds: int

    @property
    def model(self) -> Vector:
        """The newest model, w_rounds."""
        return self.models[self.rounds]

    @property
    def slot(self) -> NDArray[np.int64]:
        """Slot of every evaluation."""
        return np.array([point.slot for point in self.points], dtype=np.int64)

    @property
    def round(self) -> NDArray[np.int64]:
        """Number of the evaluated model, for every evaluation."""
        return np.array([point.round for point in self.points], dtype=np.int64)

    @property
    def loss(self) -> NDArray[np.float64]:
        """Training loss of every evaluation."""
        return np.array([point.loss for point in self.points], dtype=np.float64)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Test accuracy of every evaluation."""
        return np.array([point.accuracy for point in self.points], dtype=np.float64)


REMEDY = "try a smaller learning_rate, fewer local_steps or a larger group_size"


class Diverged(UserError):
    """A model or a loss is not finite any more; ``history`` is the state before that."""

    def __init__(self, round_number: int, what: str, history: History) -> None:
        self.round, self.history = round_number, history
        super().__init__(f"training diverged in round {round_number}: the {what} is not finite; {REMEDY}")
