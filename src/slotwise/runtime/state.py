"""LiveState: everything a server has to know to go on with a run after it was killed."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Point
from slotwise.schedule import (
    Agenda,
    Delivered,
    Event,
    Joined,
    Left,
    Lost,
    Ready,
    Record,
    Scheduler,
    SchedulerState,
    Sent,
)


class Late(NamedTuple):
    """A device that did not keep pace: what was due in slot ``planned`` was there in slot ``actual``."""

    device: int
    round: int
    what: str
    planned: int
    actual: int


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
        overdue: who should be ready by now and is not: since which slot, and with which model.
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
    overdue: dict[int, tuple[int, int]] = field(default_factory=dict)
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
class Boundary:
    """A state as it was at the end of a round, to go back to if the next one cannot be finished."""

    scheduler: SchedulerState
    entries: list[tuple[int, Event]]
    rest: LiveState

    @classmethod
    def of(cls, state: LiveState) -> Boundary:
        """What the next round changes is copied."""
        uplinks, lost, broadcasts, receivers = state.record
        rest = replace(
            state,
            models=dict(state.models),
            assigned=dict(state.assigned),
            unplanned=list(state.unplanned),
            sent=Counter(state.sent),
            record=Record(list(uplinks), list(lost), list(broadcasts), list(receivers)),
            overdue=dict(state.overdue),
            round_seconds=list(state.round_seconds),
        )
        return cls(state.scheduler.state, state.agenda.entries(), rest)

    def state(self, scheduler: Scheduler) -> LiveState:
        """The state; ``scheduler``, of the same run, becomes its Scheduler."""
        scheduler.restore(self.scheduler)
        agenda = Agenda()
        for slot, event in self.entries:
            agenda.add(slot, event)
        return replace(self.rest, scheduler=scheduler, agenda=agenda)


_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Ready, Sent, Lost, Delivered, Left, Joined)
}


def encode_state(state: LiveState) -> bytes:
    """The state as a numpy archive without pickles: the models, and the rest as JSON."""
    document = {
        "scheduler": state.scheduler.state._asdict(),
        "agenda": [(slot, type(event).__name__, *event) for slot, event in state.agenda.entries()],
        "slot": state.slot,
        "assigned": state.assigned,
        "unplanned": [(type(event).__name__, *event) for event in state.unplanned],
        "sent": state.sent,
        "record": {name: [*map(list, rows)] for name, rows in state.record._asdict().items()},
        "points": state.points,
        "rejected": state.rejected,
        "late": state.late,
        "overdue": state.overdue,
        "barred": sorted(state.barred),
        "grants": state.grants,
        "round_seconds": state.round_seconds,
    }
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    models = _models("models", state.models) | _models("unevaluated", state.unevaluated)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, document=text, **models)
    return buffer.getvalue()


def decode_state(data: bytes, scheduler: Scheduler) -> LiveState | None:
    """The state that `encode_state` wrote; ``scheduler``, of the same run, becomes its Scheduler."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            document = json.loads(archive["document"].tobytes())
            models, unevaluated = _from_models("models", archive), _from_models("unevaluated", archive)
            scheduler.restore(_scheduler_state(document["scheduler"]))
            return _state(document, scheduler, models, unevaluated)
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError):
        return None


def _state(
    document: dict[str, Any], scheduler: Scheduler, models: dict[int, Vector], unevaluated: dict[int, Vector]
) -> LiveState:
    agenda = Agenda()
    for slot, name, *values in document["agenda"]:
        agenda.add(slot, _EVENTS[name](*values))
    uplinks, lost, broadcasts, receivers = (document["record"][name] for name in Record._fields)
    return LiveState(
        scheduler=scheduler,
        agenda=agenda,
        models=models,
        unevaluated=unevaluated,
        assigned=_pairs(document["assigned"]),
        unplanned=[_EVENTS[name](*values) for name, *values in document["unplanned"]],
        sent=Counter(_numbered(document["sent"])),
        record=Record([*map(tuple, uplinks)], [*map(tuple, lost)], [*map(tuple, broadcasts)], receivers),
        points=[Point(*point) for point in document["points"]],
        rejected=Counter(document["rejected"]),
        late=[Late(*late) for late in document["late"]],
        overdue=_pairs(document["overdue"]),
        barred=set(document["barred"]),
        **{name: document[name] for name in ("slot", "grants", "round_seconds")},
    )


def _scheduler_state(document: dict[str, Any]) -> SchedulerState:
    state = SchedulerState(**document)
    return state._replace(
        booked=_numbered(state.booked),
        computing=_numbered(state.computing),
        ready=[(turn, device, version) for turn, device, version in state.ready],
        granted=None if state.granted is None else (state.granted[0], state.granted[1], state.granted[2]),
    )


def _numbered(table: dict[Any, Any]) -> dict[int, Any]:
    """JSON makes text of numbers that are keys."""
    return {int(key): value for key, value in table.items()}


def _pairs(table: dict[Any, Any]) -> dict[int, tuple[int, int]]:
    """Tables of devices to two numbers."""
    return {device: (first, second) for device, (first, second) in _numbered(table).items()}


def _models(name: str, models: dict[int, Vector]) -> dict[str, NDArray[Any]]:
    versions = sorted(models)
    vectors = [models[version] for version in versions]
    stacked = np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
    return {f"{name}_versions": np.array(versions, dtype=np.int64), name: stacked}


def _from_models(name: str, archive: Any) -> dict[int, Vector]:
    return dict(zip(archive[f"{name}_versions"].tolist(), archive[name], strict=True))
