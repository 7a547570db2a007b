"""A state as bytes, and back."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Point
from slotwise.live.state import Late, LiveState, Snapshot
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

ROWS_AT_ONCE = 10_000  # a few milliseconds; then whoever else has something to do has a turn
_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Ready, Sent, Lost, Delivered, Left, Joined)
}


def encode_state(snapshot: Snapshot) -> bytes:
    """A numpy archive without pickles: models and the long record as arrays, and the rest as JSON."""
    state = snapshot.values()
    document = {
        "scheduler": snapshot.scheduler._asdict(),
        "agenda": [(slot, type(event).__name__, *event) for slot, event in snapshot.entries],
        "slot": state.slot,
        "assigned": state.assigned,
        "unplanned": [(type(event).__name__, *event) for event in state.unplanned],
        "sent": state.sent,
        "points": state.points,
        "rejected": state.rejected,
        "late": state.late,
        "overdue": state.overdue,
        "barred": sorted(state.barred),
        "grants": state.grants,
    }
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    models = _models("models", state.models) | _models("unevaluated", state.unevaluated)
    seconds = np.array(state.round_seconds, dtype=np.float64)
    arrays: dict[str, NDArray[Any]] = {
        "document": text,
        "round_seconds": seconds,
        **models,
        **_record(state.record),
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def decode_state(data: bytes, scheduler: Scheduler) -> LiveState | None:
    """The state that `encode_state` wrote; ``scheduler``, of the same run, becomes its Scheduler."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            document = json.loads(archive["document"].tobytes())
            scheduler.restore(_scheduler_state(document["scheduler"]))
            return _state(document, archive, scheduler)
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError):
        return None


def _state(document: dict[str, Any], archive: Any, scheduler: Scheduler) -> LiveState:
    agenda = Agenda()
    for slot, name, *values in document["agenda"]:
        agenda.add(slot, _EVENTS[name](*values))
    assigned = _numbered(document["assigned"])
    return LiveState(
        scheduler=scheduler,
        agenda=agenda,
        slot=document["slot"],
        models=_from_models("models", archive),
        assigned={n: (version, training) for n, (version, training) in assigned.items()},
        unplanned=[_EVENTS[name](*values) for name, *values in document["unplanned"]],
        sent=Counter(_numbered(document["sent"])),
        record=_from_record(archive),
        points=[Point(*point) for point in document["points"]],
        unevaluated=_from_models("unevaluated", archive),
        rejected=Counter(document["rejected"]),
        late=[Late(*late) for late in document["late"]],
        overdue=_numbered(document["overdue"]),
        barred=set(document["barred"]),
        grants=document["grants"],
        round_seconds=archive["round_seconds"].tolist(),
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


def _record(record: Record) -> dict[str, NDArray[np.int64]]:
    return {
        "uplinks": _table(record.uplinks).reshape(-1, 5),
        "lost": _table(record.lost).reshape(-1, 5),
        "broadcasts": _table(record.broadcasts).reshape(-1, 2),
        "receivers": _table(record.receivers),
        "receiver_counts": np.array([*map(len, record.receivers)], dtype=np.int64),
    }


def _from_record(archive: Any) -> Record:
    uplinks, lost, broadcasts = (
        [*map(tuple, archive[name].tolist())] for name in ("uplinks", "lost", "broadcasts")
    )
    ends = np.cumsum(archive["receiver_counts"])
    receivers = [group.tolist() for group in np.split(archive["receivers"], ends)[:-1]]
    return Record(uplinks, lost, broadcasts, receivers)


def _table(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """All numbers of all rows."""
    parts = [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE)]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *(np.fromiter(chain.from_iterable(part), np.int64) for part in parts)])


def _models(name: str, models: dict[int, Vector]) -> dict[str, NDArray[Any]]:
    versions = sorted(models)
    vectors = [models[version] for version in versions]
    stacked = np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
    return {f"{name}_versions": np.array(versions, dtype=np.int64), name: stacked}


def _from_models(name: str, archive: Any) -> dict[int, Vector]:
    return dict(zip(archive[f"{name}_versions"].tolist(), archive[name], strict=True))
