"""LiveState: everything a server needs to resume a run after it was killed, and how it is stored."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import NO_STATE, RuleState, Vector
from slotwise.learning import Point
from slotwise.live.device_report import DeviceReport
from slotwise.live.parts import Transfers
from slotwise.live.protocol import Work
from slotwise.live.server.aggregator import ModelHealth
from slotwise.live.server.device_state import Assignments, ChannelGrant, Penalties, Presence
from slotwise.live.server.round_log import Position, Round, RoundLog, as_rounds
from slotwise.live.server.timings import Timings
from slotwise.runs.checkpoints import LEARNING, RULE_STATE, learning_in, rule_state_in
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

MOST_REASONS = 100  # of rejected messages in a checkpoint
_OLD_TABLES = ("uplinks", "lost", "broadcasts")  # in checkpoints of earlier versions
_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Ready, Sent, Lost, Delivered, Left, Joined)
}


class Completion(NamedTuple):
    """When a model was complete, and the age of the oldest update in it."""

    slot: int = 0  # the end of its broadcast
    staleness: int = 0


@dataclass
class LiveState:
    """The state of a live run between two instants."""

    scheduler: Scheduler
    agenda: Agenda = field(default_factory=Agenda)  # planned events of the coming slots
    slot: int = 0  # the last one in which something happened
    models: dict[int, Vector] = field(default_factory=dict)  # those that devices compute on, and the newest
    rule_state: RuleState = field(default_factory=dict)  # of the aggregation rule, after the completed rounds
    learned: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # that decisions depend on
    group_sizes: Sequence[tuple[int, int]] = ()  # that were decided: (slot of the broadcast, size)
    presence: Presence = field(default_factory=Presence)
    assignments: Assignments = field(default_factory=Assignments)
    grant: ChannelGrant = field(default_factory=ChannelGrant)
    penalties: Penalties = field(default_factory=Penalties)
    health: ModelHealth = field(default_factory=ModelHealth)
    uploads: Transfers = field(default_factory=Transfers)  # not saved: devices send lost parts again
    timings: Timings = field(default_factory=Timings)  # not saved: a file of its own
    log: RoundLog = field(default_factory=RoundLog)  # completed rounds
    completions: dict[int, Completion] = field(default_factory=dict)  # of the models that are kept
    points: list[Point] = field(default_factory=list)  # evaluated models
    unevaluated: dict[int, Vector] = field(default_factory=dict)  # models that will be evaluated
    rejected: Counter[str] = field(default_factory=Counter)  # messages by reason
    overdue: dict[int, int] = field(default_factory=dict)  # model version of devices not ready in time
    reports: dict[int, DeviceReport] = field(default_factory=dict)  # not saved: devices send them again

    @property
    def round(self) -> int:
        """The number of completed rounds."""
        return self.log.rounds

    @property
    def seconds(self) -> float:
        """The time at which the last round was complete."""
        return self.log.seconds

    @property
    def record(self) -> Record:
        """All rounds in plain lists, read from the log."""
        return self.log.record()

    def complete_round(self, one: Round) -> None:
        """Note that a round is complete; its model is there already."""
        self.log.add(one)
        self.completions[self.round] = Completion(one.end, one.max_staleness)

    def disconnect(self, device: int) -> None:
        """Count a device as disconnected: its work is lost, and its update is no longer awaited."""
        self.presence.disconnect(device)
        self.assignments.drop(device)
        self.uploads.drop(device)
        self.grant.abandon(device)

    def forget_models(self) -> None:
        """Drop the models that no device computes on and that no roll-back needs."""
        used = (work.version for work in self.assignments.work.values())
        needed = {*used, self.round, *self.health.vouched()}
        self.models = {version: model for version, model in self.models.items() if version in needed}
        self.completions = {
            version: completion
            for version, completion in self.completions.items()
            if version in self.models or version in self.unevaluated
        }


class Snapshot(NamedTuple):
    """A copy of a state: saved while the run continues, or restored."""

    document: dict[str, Any]  # plain values
    models: dict[int, Vector]
    unevaluated: dict[int, Vector]
    rule_state: RuleState = NO_STATE
    learned: Mapping[str, NDArray[Any]] = {}

    @classmethod
    def of(cls, state: LiveState) -> Snapshot:
        """Copy everything that may change."""
        # Some names, such as "barred", are those of earlier builds, whose checkpoints can be read.
        document = {
            "scheduler": state.scheduler.state._asdict(),
            "agenda": [(slot, type(event).__name__, *event) for slot, event in state.agenda.entries()],
            "slot": state.slot,
            "assigned": dict(state.assignments.work),
            "unplanned": [(type(event).__name__, *event) for event in state.presence.changes],
            "sent": dict(state.assignments.delivered),
            "points": list(state.points),
            "rejected": dict(state.rejected),
            "overdue": dict(state.overdue),
            "barred": sorted(state.penalties.excluded),
            "penalties": dict(state.penalties.points),
            "health": state.health.saved(),
            "grants": state.grant.count,
            "log": state.log.position._asdict(),
            "completions": dict(state.completions),
            "group_sizes": list(state.group_sizes),
        }
        # Models and the arrays of the rule are never changed in place, so copies of the tables are enough.
        return cls(
            document, dict(state.models), dict(state.unevaluated), state.rule_state, dict(state.learned)
        )

    @property
    def position(self) -> Position:
        """The end of the log."""
        kept = dict(self.document["log"])
        starters = None if kept["starters"] is None else tuple(kept["starters"])
        return Position(**kept | {"late": _by_number(kept["late"]), "starters": starters})

    def restore(self, scheduler: Scheduler, devices: int, log: RoundLog) -> LiveState:
        """Return the state; ``scheduler``, of the same run, becomes its Scheduler, and ``log`` its log."""
        document = self.document
        kept = SchedulerState(**document["scheduler"])
        scheduler.restore(
            # JSON has made lists of tuples, which the Scheduler compares, and text of integer keys.
            kept._replace(
                booked=_by_number(kept.booked),
                computing=_by_number(kept.computing),
                ready=[(turn, device, version) for turn, device, version in kept.ready],
                sending=[(turn, device, version) for turn, device, version in kept.sending],
            )
        )
        agenda = Agenda()
        for slot, name, *values in document["agenda"]:
            agenda.add(slot, _EVENTS[name](*values))
        changes = [(Left if name == "Left" else Joined)(*values) for name, *values in document["unplanned"]]
        # Who is connected is not saved: it follows from the Scheduler and the events it does not know yet.
        connected = set(range(1, devices + 1)) - set(scheduler.state.absent)
        for event in (*(event for _, event in agenda.entries()), *changes):  # not known to the Scheduler yet
            if isinstance(event, Left):
                connected.discard(event.device)
            elif isinstance(event, Joined):
                connected.add(event.device)
        work = {n: Work(*work) for n, work in _by_number(document["assigned"]).items()}
        return LiveState(
            scheduler=scheduler,
            agenda=agenda,
            slot=document["slot"],
            models=dict(self.models),
            rule_state=self.rule_state,
            learned=self.learned,
            group_sizes=[(slot, size) for slot, size in document.get("group_sizes", [])],
            presence=Presence(connected, changes),
            penalties=Penalties(_by_number(document.get("penalties", {})), document["barred"]),
            health=ModelHealth(document.get("health")),
            # Who is ready is not saved: a device that says ``here`` is answered, and then reports it again.
            assignments=Assignments(work, _by_number(document["sent"])),
            # Snapshots are taken between two rounds, when no grant is open.
            grant=ChannelGrant(document["grants"]),
            log=log,
            completions={v: Completion(*one) for v, one in _by_number(document["completions"]).items()},
            points=[Point(*point) for point in document["points"]],
            unevaluated=dict(self.unevaluated),
            # Earlier builds had reasons with texts of the senders, as many as these liked.
            rejected=Counter(dict(Counter(document["rejected"]).most_common(MOST_REASONS))),
            overdue=_by_number(document["overdue"]),
        )


def encode_state(snapshot: Snapshot) -> bytes:
    """Return a numpy archive without pickles: models as arrays, the rest as JSON."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, models in (("models", snapshot.models), ("unevaluated", snapshot.unevaluated)):
        arrays[f"{name}_versions"] = np.array(sorted(models), dtype=np.int64)
        vectors = [models[version] for version in sorted(models)]
        arrays[name] = np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
    arrays |= {RULE_STATE + name: array for name, array in snapshot.rule_state.items()}
    arrays |= {LEARNING + name: array for name, array in snapshot.learned.items()}
    text = np.frombuffer(json.dumps(snapshot.document).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, document=text, **arrays)
    return buffer.getvalue()


def decode_state(data: bytes, scheduler: Scheduler, devices: int, log: RoundLog) -> LiveState | None:
    """Return the state that `encode_state` wrote, or None if it or what the log had then is damaged."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            document = json.loads(archive["document"].tobytes())
            old = None if "log" in document else _old_record(archive, document)
            models, unevaluated = (
                dict(zip(archive[f"{name}_versions"].tolist(), archive[name], strict=True))
                for name in ("models", "unevaluated")
            )
            rule_state, learned = rule_state_in(archive), learning_in(archive)
        kept = set(models) | set(unevaluated)
        snapshot = Snapshot(document, models, unevaluated, rule_state, learned)
        if old is not None:
            _take_old_record(document, old, log, kept)
        elif not log.resume(snapshot.position):
            return None
        return snapshot.restore(scheduler, devices, log)
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError):
        return None


def _old_record(archive: Mapping[str, NDArray[Any]], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rounds in a checkpoint of an earlier version, which had no log."""
    old: dict[str, Any] = {name: [*map(tuple, archive[name].tolist())] for name in _OLD_TABLES}
    ends = np.cumsum(archive["receiver_counts"])
    old["receivers"] = [group.tolist() for group in np.split(archive["receivers"], ends)[:-1]]
    old["round_seconds"] = archive["round_seconds"].tolist()
    return old | {"late": document["late"]}


def _take_old_record(
    document: dict[str, Any], old: Mapping[str, Any], log: RoundLog, kept: Collection[int]
) -> None:
    """Write the rounds of an old checkpoint to the log."""
    log.go_back(Position())
    completions = {}
    if old["receivers"]:
        log.start(old["receivers"][0])
    for version, one in enumerate(as_rounds(old), 1):
        log.add(one)
        if version in kept:
            completions[version] = Completion(one.end, one.max_staleness)
    document["completions"] = completions


def _by_number(table: dict[Any, Any]) -> dict[int, Any]:
    """Return a table with integer keys, which JSON turns into text."""
    return {int(key): value for key, value in table.items()}
