"""History: the evaluations of a training and the state to resume from; the errors that have one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import RuleState, Vector
from slotwise.base.errors import PicklableError, UserError
from slotwise.base.frozen import EqualByNumbers
from slotwise.base.notebook import Displayable
from slotwise.learning.task import NO_METRICS, DeviceState
from slotwise.schedule import Timeline

REMEDY = "try a smaller learning_rate, fewer local_steps or a larger group_size"


class Point(NamedTuple):
    """Evaluation of one model.

    Attributes:
        slot: Slot in which the model was complete.
        round: Number of the model, w_round: rounds applied by then.
        loss: Training loss over all devices' data.
        accuracy: Test accuracy, 0 to 1.
        staleness: Staleness of the oldest update in the last applied round; 0 if there was none.
        metrics: Further numbers by name, such as ``test_loss``.
    """

    slot: int
    round: int
    loss: float
    accuracy: float
    staleness: int
    metrics: Mapping[str, float] = NO_METRICS


@dataclass(frozen=True, eq=False)
class History(EqualByNumbers, Displayable):
    """Evaluations of a training and its last models. Two are equal if all their numbers are.

    Attributes:
        points: The evaluations, in order. Their columns are arrays: `slot`, `round`, `loss`, `accuracy`.
        models: The models needed to resume, by version; the newest is w_rounds.
        rounds: Rounds applied.
        rule_state: State of the aggregation rule after them.
        device_states: What devices keep between trainings, by device; those that keep nothing are missing.
        learning: If decisions were taken, their answers and what is known for the next, as arrays by name.
        timeline: What was trained along, or the beginning of what is; None if that is not known.
    """

    points: tuple[Point, ...]
    models: Mapping[int, Vector]
    rounds: int
    rule_state: RuleState = field(default_factory=dict)
    device_states: Mapping[int, DeviceState] = field(default_factory=dict)
    learning: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    timeline: Timeline | None = field(default=None, repr=False, compare=False)

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


class Diverged(UserError):
    """A model or a loss is not finite any more; ``history`` is the state before that."""

    def __init__(self, round_number: int, what: str, history: History) -> None:
        self.round, self.history = round_number, history
        remedy = (
            REMEDY if round_number or what == "model" else "look for the fault in the data or the first model"
        )
        super().__init__(f"training diverged in round {round_number}: the {what} is not finite; {remedy}")


class Interrupted(PicklableError, KeyboardInterrupt):
    """Ctrl-C ended a training; ``history`` has its complete rounds and can be resumed."""

    def __init__(self, history: History) -> None:
        self.history = history
        super().__init__(f"interrupted after {history.rounds} rounds")


def unfitting(history: History, timeline: Timeline, size: int) -> str:
    """Return why a history cannot be resumed along a timeline, or an empty string."""
    if history.rounds > timeline.rounds:
        return f"the history has {history.rounds} rounds, and the timeline {timeline.rounds}"
    rest = timeline.version[timeline.round >= history.rounds]
    # Versions after the present one are still to be computed.
    missing = {*rest[rest <= history.rounds].tolist(), history.rounds} - history.models.keys()
    if missing:
        return f"the history is of another timeline: model {min(missing)}, which this one needs, is not in it"
    if any(model.shape != (size,) for model in history.models.values()):
        return f"the models of the history must have {size} numbers each, as those of the task"
    if (other := _first_other_round(history, timeline)) is not None:
        return f"the history is of another timeline: round {other} differs"
    return ""


def _first_other_round(history: History, timeline: Timeline) -> int | None:
    """Return the first round of a history that is another in a timeline; None if all are the same."""
    if history.timeline is not None:
        return history.timeline.first_difference(timeline, history.rounds)
    # A checkpoint has no timeline, but slots of its evaluations. Model k is made in round k − 1.
    ends = timeline.broadcast_end
    wrong = (p.round - 1 for p in history.points if p.round and p.slot != ends[p.round - 1])
    return next(wrong, None)
