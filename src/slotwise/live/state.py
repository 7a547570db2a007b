"""LiveState: everything a server has to know to go on with a run after it was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from slotwise.aggregation import Vector
from slotwise.learning import Point
from slotwise.schedule import Agenda, Event, Joined, Left, Record, Scheduler, SchedulerState


class Late(NamedTuple):
    """A device that did not keep pace, in which round, and with what."""

    device: int
    round: int
    what: str


@dataclass
class LiveState:
    """The state of a live run between two instants.

    Attributes:
        scheduler: who uses the channel next.
        agenda: what the plan has for the slots to come.
        slot: the last slot in which something happened.
        models: those that somebody still trains on, and the newest.
        assigned: for each device that trains or has trained, the model and the number of the training.
        unplanned: who has come and gone and is not on the agenda yet.
        sent: the updates each device has brought: the number of its next training.
        record: uplinks, losses and broadcasts of the completed rounds.
        points: the curve.
        unevaluated: models that will be points of it.
        rejected: messages that did not count, by reason.
        late: who did not keep pace.
        overdue: who should be ready by now and is not, and with which model.
        barred: devices that are out for the rest of the run.
        grants: how many were given.
        round_seconds: when each round was complete, in seconds since the start.
    """

    scheduler: Scheduler
    agenda: Agenda = field(default_factory=Agenda)
    slot: int = 0
    models: dict[int, Vector] = field(default_factory=dict)
    assigned: dict[int, tuple[int, int]] = field(default_factory=dict)
    unplanned: list[Event] = field(default_factory=list)
    sent: Counter[int] = field(default_factory=Counter)
    record: Record = field(default_factory=lambda: Record([], [], [], []))
    points: list[Point] = field(default_factory=list)
    unevaluated: dict[int, Vector] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    late: list[Late] = field(default_factory=list)
    overdue: dict[int, int] = field(default_factory=dict)
    barred: set[int] = field(default_factory=set)
    grants: int = 0
    round_seconds: list[float] = field(default_factory=list)

    @property
    def round(self) -> int:
        """Rounds that are complete."""
        return len(self.record.broadcasts)

    @property
    def away(self) -> set[int]:
        """The devices that are not there; of some the Scheduler has still to be told."""
        away = set(self.scheduler.state.absent)
        for event in (*(event for _, event in self.agenda.entries()), *self.unplanned):
            if isinstance(event, Left):
                away.add(event.device)
            elif isinstance(event, Joined):
                away.discard(event.device)
        return away

    @property
    def seconds(self) -> float:
        """When the last round was complete."""
        return self.round_seconds[-1] if self.round_seconds else 0.0

    def forget_models(self) -> None:
        """Drop the models that nobody trains on any more."""
        needed = {*(version for version, _ in self.assigned.values()), self.round}
        self.models = {version: model for version, model in self.models.items() if version in needed}


@dataclass(frozen=True)
class Snapshot:
    """A state as it was at one moment: to save it while the run goes on, or to go back to it.

    Attributes:
        scheduler: of the Scheduler.
        entries: of the agenda.
        lengths: of everything that only grows, and is not copied for that reason.
    """

    scheduler: SchedulerState
    entries: list[tuple[int, Event]]
    lengths: list[int]
    _rest: LiveState

    @classmethod
    def of(cls, state: LiveState) -> Snapshot:
        """What may change is copied."""
        rest = replace(
            state,
            models=dict(state.models),
            assigned=dict(state.assigned),
            unplanned=list(state.unplanned),
            sent=Counter(state.sent),
            unevaluated=dict(state.unevaluated),
            rejected=Counter(state.rejected),
            overdue=dict(state.overdue),
            barred=set(state.barred),
        )
        lengths = [len(rows) for rows in _growing(state)]
        return cls(state.scheduler.state, state.agenda.entries(), lengths, rest)

    def state(self, scheduler: Scheduler) -> LiveState:
        """The state; ``scheduler``, of the same run, becomes its Scheduler."""
        scheduler.restore(self.scheduler)
        agenda = Agenda()
        for slot, event in self.entries:
            agenda.add(slot, event)
        return replace(self.values(), scheduler=scheduler, agenda=agenda)

    def values(self) -> LiveState:
        """The state but for Scheduler and agenda, which are those of now."""
        rows: list[Any] = [rows[:end] for rows, end in zip(_growing(self._rest), self.lengths, strict=True)]
        points, late, round_seconds, *record = rows
        return replace(
            self._rest, points=points, late=late, round_seconds=round_seconds, record=Record(*record)
        )


def _growing(state: LiveState) -> list[Sequence[object]]:
    return [state.points, state.late, state.round_seconds, *state.record]
