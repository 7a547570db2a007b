"""LiveState: everything a server needs to resume a run after it was killed, and how it is stored."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Point
from slotwise.live.protocol.wire import Work
from slotwise.live.server.device_state import Assignments, ChannelGrant, Presence
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

ROWS_AT_ONCE = 10_000  # a few milliseconds, so that saving does not hold up the other threads
_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Ready, Sent, Lost, Delivered, Left, Joined)
}


class Late(NamedTuple):
    """A device that was late, in which round, and with what."""

    device: int
    round: int
    what: str


@dataclass
class LiveState:
    """The state of a live run between two instants.

    Attributes:
        scheduler: decides who uses the channel next.
        agenda: planned events of the coming slots.
        slot: the last slot in which something happened.
        models: models that devices compute on, and the newest.
        presence: owner of who is connected.
        assignments: owner of who computes what.
        grant: owner of who holds the channel.
        record: uplinks, losses and broadcasts of the completed rounds.
        points: evaluated models.
        unevaluated: models that will be evaluated.
        rejected: number of rejected messages by reason.
        late: devices that were late.
        overdue: devices that should be ready by now and are not, with their model version.
        round_seconds: when each round was complete, in seconds since the start.
    """

    scheduler: Scheduler
    agenda: Agenda = field(default_factory=Agenda)
    slot: int = 0
    models: dict[int, Vector] = field(default_factory=dict)
    presence: Presence = field(default_factory=Presence)
    assignments: Assignments = field(default_factory=Assignments)
    grant: ChannelGrant = field(default_factory=ChannelGrant)
    record: Record = field(default_factory=lambda: Record([], [], [], []))
    points: list[Point] = field(default_factory=list)
    unevaluated: dict[int, Vector] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    late: list[Late] = field(default_factory=list)
    overdue: dict[int, int] = field(default_factory=dict)
    round_seconds: list[float] = field(default_factory=list)

    @property
    def round(self) -> int:
        """The number of completed rounds."""
        return len(self.record.broadcasts)

    @property
    def seconds(self) -> float:
        """The time at which the last round was complete."""
        return self.round_seconds[-1] if self.round_seconds else 0.0

    def disconnect(self, device: int) -> None:
        """Count a device as disconnected: its work is lost, and its update is no longer awaited."""
        self.presence.disconnect(device)
        self.assignments.drop(device)
        self.grant.abandon(device)

    def forget_models(self) -> None:
        """Drop the models that no device computes on."""
        needed = {*self.assignments.versions, self.round}
        self.models = {version: model for version, model in self.models.items() if version in needed}


@dataclass(frozen=True)
class Snapshot:
    """A state as it was at one moment: saved while the run continues, or restored.

    Attributes:
        scheduler: state of the Scheduler.
        entries: events of the agenda.
        lengths: lengths of the lists that only grow, which are not copied.
    """

    scheduler: SchedulerState
    entries: list[tuple[int, Event]]
    lengths: list[int]
    _rest: LiveState

    @classmethod
    def of(cls, state: LiveState) -> Snapshot:
        """Copy everything that may change."""
        rest = replace(
            state,
            models=dict(state.models),
            presence=state.presence.copy(),
            assignments=state.assignments.copy(),
            grant=ChannelGrant(state.grant.count),
            unevaluated=dict(state.unevaluated),
            rejected=Counter(state.rejected),
            overdue=dict(state.overdue),
        )
        lengths = [len(rows) for rows in _growing(state)]
        return cls(state.scheduler.state, state.agenda.entries(), lengths, rest)

    def restore(self, scheduler: Scheduler) -> LiveState:
        """Return the state; ``scheduler``, of the same run, becomes its Scheduler."""
        scheduler.restore(self.scheduler)
        return replace(self.values(), scheduler=scheduler, agenda=_agenda(self.entries))

    def values(self) -> LiveState:
        """Return the state except for Scheduler and agenda, which are those of now."""
        rows: list[Any] = [rows[:end] for rows, end in zip(_growing(self._rest), self.lengths, strict=True)]
        points, late, seconds, *record = rows
        return replace(self._rest, points=points, late=late, round_seconds=seconds, record=Record(*record))


def _growing(state: LiveState) -> list[Sequence[object]]:
    return [state.points, state.late, state.round_seconds, *state.record]


def _agenda(entries: Sequence[tuple[int, Event]]) -> Agenda:
    agenda = Agenda()
    for slot, event in entries:
        agenda.add(slot, event)
    return agenda


def encode_state(snapshot: Snapshot) -> bytes:
    """Return a numpy archive without pickles: models and the long record as arrays, the rest as JSON."""
    state = snapshot.values()
    document = {
        "scheduler": snapshot.scheduler._asdict(),
        "agenda": [(slot, type(event).__name__, *event) for slot, event in snapshot.entries],
        "slot": state.slot,
        "assigned": state.assignments.table,
        "unplanned": [(type(event).__name__, *event) for event in state.presence.changes],
        "sent": state.assignments.delivered,
        "points": state.points,
        "rejected": state.rejected,
        "late": state.late,
        "overdue": state.overdue,
        "barred": sorted(state.presence.excluded),
        "grants": state.grant.count,
    }
    record = state.record
    arrays: dict[str, NDArray[Any]] = {
        "document": np.frombuffer(json.dumps(document).encode(), dtype=np.uint8),
        "round_seconds": np.array(state.round_seconds, dtype=np.float64),
        "uplinks": _table(record.uplinks).reshape(-1, 5),
        "lost": _table(record.lost).reshape(-1, 5),
        "broadcasts": _table(record.broadcasts).reshape(-1, 2),
        "receivers": _table(record.receivers),
        "receiver_counts": np.array([*map(len, record.receivers)], dtype=np.int64),
        **_model_arrays("models", state.models),
        **_model_arrays("unevaluated", state.unevaluated),
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def decode_state(data: bytes, scheduler: Scheduler, devices: int) -> LiveState | None:
    """Return the state that `encode_state` wrote, or None if it is damaged.

    ``scheduler``, of the same run, becomes its Scheduler.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            document = json.loads(archive["document"].tobytes())
            scheduler.restore(_scheduler_state(document["scheduler"]))
            return _decoded(document, archive, scheduler, devices)
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError):
        return None


def _decoded(document: dict[str, Any], archive: Any, scheduler: Scheduler, devices: int) -> LiveState:
    agenda = _agenda([(slot, _EVENTS[name](*values)) for slot, name, *values in document["agenda"]])
    changes = [(Left if name == "Left" else Joined)(*values) for name, *values in document["unplanned"]]
    absent = _absent(scheduler, [*(event for _, event in agenda.entries()), *changes])
    connected = set(range(1, devices + 1)) - absent
    assigned = {n: Work(*work) for n, work in _by_number(document["assigned"]).items()}
    uplinks, lost, broadcasts = (
        [*map(tuple, archive[name].tolist())] for name in ("uplinks", "lost", "broadcasts")
    )
    ends = np.cumsum(archive["receiver_counts"])
    receivers = [group.tolist() for group in np.split(archive["receivers"], ends)[:-1]]
    return LiveState(
        scheduler=scheduler,
        agenda=agenda,
        slot=document["slot"],
        models=_models("models", archive),
        presence=Presence(connected, changes, document["barred"]),
        assignments=Assignments(assigned, _by_number(document["sent"])),
        grant=ChannelGrant(document["grants"]),
        record=Record(uplinks, lost, broadcasts, receivers),
        points=[Point(*point) for point in document["points"]],
        unevaluated=_models("unevaluated", archive),
        rejected=Counter(document["rejected"]),
        late=[Late(*late) for late in document["late"]],
        overdue=_by_number(document["overdue"]),
        round_seconds=archive["round_seconds"].tolist(),
    )


def _absent(scheduler: Scheduler, events: Sequence[Event]) -> set[int]:
    """Return the devices that are away, counting those of which the Scheduler has still to be told."""
    absent = set(scheduler.state.absent)
    for event in events:
        if isinstance(event, Left):
            absent.add(event.device)
        elif isinstance(event, Joined):
            absent.discard(event.device)
    return absent


def _scheduler_state(document: dict[str, Any]) -> SchedulerState:
    state = SchedulerState(**document)
    return state._replace(
        booked=_by_number(state.booked),
        computing=_by_number(state.computing),
        ready=[(turn, device, version) for turn, device, version in state.ready],
        granted=None if state.granted is None else (state.granted[0], state.granted[1], state.granted[2]),
    )


def _by_number(table: dict[Any, Any]) -> dict[int, Any]:
    """Return a table with integer keys, which JSON turns into text."""
    return {int(key): value for key, value in table.items()}


def _table(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return all numbers of all rows."""
    parts = [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE)]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *(np.fromiter(chain.from_iterable(part), np.int64) for part in parts)])


def _model_arrays(name: str, models: dict[int, Vector]) -> dict[str, NDArray[Any]]:
    versions = sorted(models)
    vectors = [models[version] for version in versions]
    stacked = np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
    return {f"{name}_versions": np.array(versions, dtype=np.int64), name: stacked}


def _models(name: str, archive: Any) -> dict[int, Vector]:
    return dict(zip(archive[f"{name}_versions"].tolist(), archive[name], strict=True))
