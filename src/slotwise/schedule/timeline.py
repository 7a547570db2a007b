"""Timeline: what happens on the channel, in whole slots, as immutable columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import UserError
from slotwise.base.frozen import FrozenArrays
from slotwise.base.notebook import Displayable
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario

Column = NDArray[np.integer[Any]]
Uplink = tuple[int, int, int, int, int]  # round, device, version, start, end
Wait = tuple[int, int, int, int]  # device, version, start, end
Reduced = tuple[int, int, int, float]  # device, start, end, power

NONE = -1  # no uplink
NEVER = np.iinfo(np.int64).max  # a slot that does not come
NEVER_CHARGED = 2**61  # the end of a wait for energy that does not end; a training fits behind it


class Record(NamedTuple):
    """The completed rounds of a driven Scheduler, in plain lists."""

    uplinks: list[Uplink]  # those that arrived, in the order of the channel
    lost: list[Uplink]
    broadcasts: list[tuple[int, int]]  # start and end
    receivers: list[Sequence[int]]  # of w_0, w_1, …
    waits: Sequence[Wait] = ()  # of devices for energy
    repeats: Sequence[Wait] = ()  # (device, version, start, end) of models sent again
    reduced: Sequence[Reduced] = ()  # uplinks with less than the whole power


class Totals(NamedTuple):
    """Totals of a timeline; all are 0 without a round."""

    rounds: int  # completed
    updates: int  # applied: uplinks that arrived
    lost: int  # uplinks that did not
    mean_staleness: float  # age of the updates applied, in rounds
    max_staleness: int
    slots: int  # until the last round ends


@dataclass(frozen=True, eq=False)
class Timeline(FrozenArrays, Displayable):  # noqa: PLW1641  (compared by columns, never a key)
    """Uplinks and broadcasts of every completed round, slot by slot.

    Uplink columns have one row per uplink in the order of the channel (uplinks that start in the same slot
    by device); broadcast columns one row per round.
    Slots are half-open: an uplink takes [start, end). Devices are numbered from 1. Round k applies the
    updates of its uplinks to w_k and broadcasts w_{k+1}.
    """

    scenario: Scenario
    schedule: str  # the name of the policy, such as "sync", "async" or "idfl"
    delay: int | None  # intentional, in rounds; None if devices wait for different numbers of rounds
    fleet: Fleet = field(repr=False)  # the devices
    round: Column = field(repr=False)  # of each uplink
    device: Column = field(repr=False)  # its sender
    version: Column = field(repr=False)  # k̂, the model its update was trained on
    start: Column = field(repr=False)
    end: Column = field(repr=False)
    broadcast_start: Column = field(repr=False)
    broadcast_end: Column = field(repr=False)  # the slot at which each round is complete
    receiver: Column = field(repr=False)  # of each model, version after version, w_0 first
    receiver_offsets: Column = field(repr=False)  # receivers of w_v are rows [offsets[v], offsets[v+1])
    # Uplinks that did not arrive: rows of (round, device, version, start, end).
    lost: Column = field(repr=False, default_factory=lambda: np.empty((0, 5), dtype=np.int64))
    # Waits for energy, before a training or another uplink: rows of (device, version, start, end). The end is
    # the slot in which the battery can pay, also if the device leaves before; NEVER_CHARGED if there is none.
    waits: Column = field(repr=False, default_factory=lambda: np.empty((0, 4), dtype=np.int64))

    # Models sent again to devices that were out of their windows: rows of (device, version, start, end).
    repeats: Column = field(repr=False, default_factory=lambda: np.empty((0, 4), dtype=np.int64))
    # Uplinks that are sent with less than the device's whole power: rows of (device, start, end, power), the
    # power relative to the whole. The end is that of its slots on the air, also if the device leaves.
    reduced: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty((0, 4)))

    def __post_init__(self) -> None:
        # Timelines share columns (`first`, `replace`) and cache what follows from them.
        for name in COLUMNS:
            getattr(self, name).flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _PLAIN) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMNS
        )

    @classmethod
    def of(
        cls, scenario: Scenario, schedule: str, delay: int | None, record: Record, fleet: Fleet
    ) -> Timeline:
        """Return the timeline of a record."""
        table, lost = (
            # Uplinks that start together were granted in the order of the selection.
            _in_order(np.fromiter(chain.from_iterable(rows), dtype=np.int64).reshape(-1, 5))
            for rows in (record.uplinks, record.lost)
        )
        slots = np.array(record.broadcasts, dtype=np.int64).reshape(-1, 2)
        return cls(
            scenario=scenario,
            schedule=schedule,
            delay=delay,
            # int32 halves the memory of columns that may have millions of rows.
            round=table[:, 0].astype(np.int32),
            device=table[:, 1].astype(np.int32),
            version=table[:, 2].astype(np.int32),
            start=table[:, 3].copy(),
            end=table[:, 4].copy(),
            broadcast_start=slots[:, 0].copy(),
            broadcast_end=slots[:, 1].copy(),
            receiver=np.array([n for group in record.receivers for n in group], dtype=np.int32),
            receiver_offsets=np.cumsum([0, *map(len, record.receivers)], dtype=np.int64),
            lost=lost,
            fleet=fleet,
            waits=np.array(record.waits, dtype=np.int64).reshape(-1, 4),
            repeats=np.array(record.repeats, dtype=np.int64).reshape(-1, 4),
            reduced=np.array(record.reduced, dtype=np.float64).reshape(-1, 4),
        )

    def __len__(self) -> int:
        return len(self.device)  # uplinks

    @property
    def rounds(self) -> int:
        """The number of completed rounds K."""
        return len(self.broadcast_end)

    @property
    def models(self) -> int:
        """Models w_0, …, w_K: what the paper's Table 1 counts."""
        return self.rounds + 1

    @property
    def last_slot(self) -> int:
        """The slot at which the last round is complete; 0 if there is none."""
        return int(self.broadcast_end[-1]) if self.rounds else 0

    @cached_property
    def most_at_once(self) -> int:
        """The most uplinks that are on the air in one slot, lost ones included."""
        starts, ends = (
            np.sort(np.concatenate([column, self.lost[:, place]]))
            for column, place in ((self.start, 3), (self.end, 4))
        )
        # When the i-th uplink begins, i + 1 have begun and some have ended.
        begun = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")
        return int(begun.max(initial=0))

    @property
    def equal_devices(self) -> bool:
        """True if the devices are the scenario's equal ones, without faults."""
        return self.fleet.is_equal_to(self.scenario, lossy_link=True)

    @cached_property
    def staleness(self) -> Column:
        """d = k − k̂ of every uplink (eq. 15)."""
        return _read_only(self.round - self.version)

    @cached_property
    def powers(self) -> Mapping[tuple[int, int], float]:
        """The part of its device's power of each uplink in ``reduced``, by device and first slot."""
        return {(int(device), int(start)): part for device, start, _, part in self.reduced.tolist()}

    @cached_property
    def training(self) -> Column:
        """The number of the sender's updates applied before, `TrainingStart.training`.

        It counts less than `Trainings`, and than jitter does: not trainings whose updates never arrived.
        """
        # Stable: the uplinks of a device stay in order, and their ranks count from 0 for each device.
        order = np.argsort(self.device, kind="stable")
        sorted_devices = self.device[order]
        first = np.searchsorted(sorted_devices, sorted_devices)
        count = np.empty(len(self), dtype=np.int64)
        count[order] = np.arange(len(self)) - first
        return _read_only(count)

    @cached_property
    def round_offsets(self) -> Column:
        """Uplinks of round k are rows [offsets[k], offsets[k+1])."""
        return _read_only(np.searchsorted(self.round, np.arange(self.rounds + 1)))

    def uplinks(self, round_number: int) -> slice:
        """Return the rows of a round's uplinks."""
        return slice(int(self.round_offsets[round_number]), int(self.round_offsets[round_number + 1]))

    def receivers(self, version: int) -> Column:
        """Return the devices that receive w_version; those of w_0 have it from slot 0 on."""
        return self.receiver[self.receiver_offsets[version] : self.receiver_offsets[version + 1]]

    def received_at(self, version: Column) -> Column:
        """Return the slot at which receivers of a model start to compute: its broadcast's end, 0 for w_0."""
        ends = np.concatenate([np.zeros(1, dtype=np.int64), self.broadcast_end])
        return ends[version]

    def first(self, rounds: int) -> Timeline:
        """Return the first ``rounds`` rounds, or all if there are no more."""
        kept = min(rounds, self.rounds)
        # After ``kept`` rounds there are the models w_0 to w_kept, so one list of receivers more than rounds.
        rows, receivers = int(self.round_offsets[kept]), int(self.receiver_offsets[kept + 1])
        return replace(
            self,
            **{name: getattr(self, name)[:rows] for name in ("round", "device", "version", "start", "end")},
            broadcast_start=self.broadcast_start[:kept],
            broadcast_end=self.broadcast_end[:kept],
            receiver=self.receiver[:receivers],
            receiver_offsets=self.receiver_offsets[: kept + 2],
            lost=self.lost[self.lost[:, 0] < kept],
            waits=self.waits[self.waits[:, 2] < (self.broadcast_end[kept - 1] if kept else 0)],
            repeats=self.repeats[self.repeats[:, 2] < (self.broadcast_end[kept - 1] if kept else 0)],
            # Those of the next round may begin beside the last broadcast.
            reduced=self.reduced[self.reduced[:, 2] <= (self.broadcast_start[kept - 1] if kept else 0)],
        )

    def first_difference(self, other: Timeline, rounds: int) -> int | None:
        """Return the first of ``rounds`` rounds whose uplinks or broadcast differ; None if all are the same.

        Both timelines must have so many rounds. Lost uplinks do not count: no model depends on them.
        """
        broadcasts = [
            np.array([t.broadcast_start, t.broadcast_end, np.diff(t.round_offsets)])[:, :rounds]
            for t in (self, other)
        ]
        wrong = np.flatnonzero((broadcasts[0] != broadcasts[1]).any(axis=0))
        first = int(wrong[0]) if len(wrong) else rounds
        # Rounds before that one have equally many uplinks, so their rows can be compared one by one.
        rows = int(self.round_offsets[first])
        uplinks = [np.array([t.device, t.version, t.start, t.end])[:, :rows] for t in (self, other)]
        unequal = np.flatnonzero((uplinks[0] != uplinks[1]).any(axis=0))
        if len(unequal):
            return int(self.round[unequal[0]])
        return first if len(wrong) else None

    def max_staleness(self) -> int:
        """Return the age of the oldest update applied, in rounds; 0 if there is none."""
        return int(self.staleness.max(initial=0))

    def mean_staleness(self) -> float:
        """Return the mean age of the updates applied, in rounds; 0 if there is none."""
        return float(self.staleness.mean()) if len(self) else 0.0

    def totals(self) -> Totals:
        """Return rounds, updates, losses, staleness and slots of the whole timeline."""
        staleness = self.mean_staleness(), self.max_staleness()
        return Totals(self.rounds, len(self), len(self.lost), *staleness, self.last_slot)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, round by round; it has a fleet only if devices are unequal."""
        return {
            "scenario": self.scenario.as_dict(),
            **({} if self.equal_devices else {"fleet": self.fleet.as_dict()}),
            "schedule": self.schedule,
            "delay": self.delay,
            "starters": self.receivers(0).tolist(),
            **({"waits": self.waits.tolist()} if len(self.waits) else {}),
            **({"repeats": self.repeats.tolist()} if len(self.repeats) else {}),
            **({"reduced": self.reduced.tolist()} if len(self.reduced) else {}),
            "rounds": [self._round_as_dict(k) for k in range(self.rounds)],
        }

    def _round_as_dict(self, k: int) -> dict[str, Any]:
        rows, columns = self.uplinks(k), (self.round, self.device, self.version, self.start, self.end)
        sent = zip(*(column[rows].tolist() for column in columns), strict=True)
        # Lost uplinks are in the order of the rounds.
        lost = self.lost[slice(*np.searchsorted(self.lost[:, 0], [k, k + 1]))].tolist()
        broadcast = int(self.broadcast_start[k]), int(self.broadcast_end[k])
        return round_as_dict(k, list(sent), lost, broadcast, self.receivers(k + 1).tolist())

    def to_json(self) -> str:
        """Return the timeline as JSON text, which `from_json` reads."""
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Timeline:
        """Read what `to_json` wrote; a UserError says what is missing or malformed."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise UserError(f"timeline: not JSON: {error}") from None

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Timeline:
        """Read what `as_dict` returned."""
        try:
            rounds, scenario = document["rounds"], Scenario(**document["scenario"])
            broadcasts = [entry["broadcast"] for entry in rounds]
            record = Record(
                [row for entry in rounds for row in _rows(entry, entry["uplinks"])],
                [row for entry in rounds for row in _rows(entry, entry.get("lost", ()))],
                [(b["start"], b["end"]) for b in broadcasts],
                [document["starters"], *(b["receivers"] for b in broadcasts)],
                document.get("waits", ()),
                document.get("repeats", ()),
                document.get("reduced", ()),
            )
            fleet = Fleet.from_dict(document["fleet"]) if "fleet" in document else Fleet.equal(scenario)
            fleet = fleet.of_scenario(scenario, lossy_link=True)
            return cls.of(scenario, document["schedule"], document["delay"], record, fleet)
        except UserError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise UserError(f"timeline: malformed: {error!r}") from None


_PLAIN = ("scenario", "schedule", "delay", "fleet")
COLUMNS = tuple(field.name for field in fields(Timeline) if field.name not in _PLAIN)


def _in_order(rows: Column) -> Column:
    """Return rows of uplinks by round, start and device; without simultaneous ones they are in this order."""
    together = (np.diff(rows[:, 3]) == 0).any()
    return rows[np.lexsort((rows[:, 1], rows[:, 3], rows[:, 0]))] if together else rows


def _read_only(column: Column) -> Column:
    column.flags.writeable = False
    return column


def in_order(uplinks: Sequence[Uplink]) -> Sequence[Uplink]:
    """Return the uplinks of one round in the order in which a timeline has them: by start and device."""
    return sorted(uplinks, key=lambda row: (row[3], row[1]))


def round_as_dict(
    k: int,
    uplinks: Iterable[Uplink],
    lost: Sequence[Uplink],
    broadcast: tuple[int, int],
    receivers: Sequence[int],
) -> dict[str, Any]:
    """Return the JSON form of round ``k``: its uplinks, and start, end and receivers of its broadcast."""
    start, end = broadcast
    return {
        "round": k,
        "uplinks": [_uplink_as_dict(*uplink) for uplink in uplinks],
        **({"lost": [_uplink_as_dict(*uplink) for uplink in lost]} if lost else {}),
        "broadcast": {"start": start, "end": end, "version": k + 1, "receivers": receivers},
    }


def _uplink_as_dict(k: int, device: int, version: int, start: int, end: int) -> dict[str, int]:
    return {"device": device, "version": version, "staleness": k - version, "start": start, "end": end}


def _rows(entry: dict[str, Any], uplinks: Iterable[dict[str, Any]]) -> Iterator[Uplink]:
    return ((entry["round"], u["device"], u["version"], u["start"], u["end"]) for u in uplinks)


class Trainings(NamedTuple):
    """Every training of every device: one row per model received, sorted by device and version."""

    device: Column
    version: Column
    arrival: Column  # the first slot in which the model is received; 0 for w_0
    received: Column  # the slot in which that is complete
    start: Column  # the slot in which computing begins
    ready: Column  # the slot in which it is finished, unless the device leaves before
    departure: Column  # the slot in which the device leaves next; NEVER if it stays
    uplink: Column  # the timeline's row of the uplink that brought the update; NONE if none did

    @classmethod
    def of(cls, timeline: Timeline) -> Trainings:
        """Return all trainings; those of the last round's receivers begin where the timeline ends."""
        fleet, models = timeline.fleet, timeline.models
        of_all = np.repeat(np.arange(models, dtype=np.int64), np.diff(timeline.receiver_offsets))
        begins = np.concatenate([np.zeros(1, dtype=np.int64), timeline.broadcast_start])[of_all]
        columns: tuple[Column, ...] = (
            timeline.receiver.astype(np.int64),
            of_all,
            begins,
            timeline.received_at(of_all),
        )
        if len(timeline.repeats):
            columns = tuple(map(np.concatenate, zip(columns, timeline.repeats.T, strict=True)))
        order = np.lexsort((columns[1], columns[0]))
        device, version, arrival, received = (column[order] for column in columns)
        complete = timeline.received_at(version)
        waits = len(timeline.waits) > 0
        start = _after_waits(timeline, device, version, received) if waits else received
        if fleet.slots_of_all is not None and fleet.is_steady:
            slots = np.full(len(device), fleet.slots_of_all[0], dtype=np.int64)
        elif fleet.is_steady:
            slots = np.array(fleet.compute_slots, dtype=np.int64)[device - 1]
        else:  # rows are sorted by device, so a device's trainings are in order
            numbers = np.arange(len(device)) - np.searchsorted(device, device)
            rows = zip(device.tolist(), numbers.tolist(), complete.tolist(), strict=True)
            slots = np.array([fleet.slots_of_training(*row) for row in rows], dtype=np.int64)
        uplink = np.full(len(device), NONE)
        if len(timeline):  # a device trains on a model once, so the two identify the uplink
            sent = timeline.device.astype(np.int64) * models + timeline.version
            wanted = device * models + version
            order = np.argsort(sent)
            row = order[np.minimum(np.searchsorted(sent, wanted, sorter=order), len(sent) - 1)]
            uplink = np.where(sent[row] == wanted, row, NONE)
        # Departures count from the arrival on: a device that leaves during the broadcast never computes.
        leaves = departures(fleet, device, arrival)
        return cls(device, version, arrival, received, start, start + slots, leaves, uplink)


def _after_waits(timeline: Timeline, device: Column, version: Column, start: Column) -> Column:
    """Return the slots in which trainings start that first have to wait for energy."""
    sender, model, begins, ends = timeline.waits.T
    key, wanted = sender * timeline.models + model, device * timeline.models + version
    before = begins == timeline.received_at(model)  # and not before another uplink
    key, ends = key[before], ends[before]
    order = np.argsort(key)
    if not len(order):
        return start
    row = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(order) - 1)]
    return np.where(key[row] == wanted, ends[row], start)


def departures(fleet: Fleet, device: Column, slot: Column) -> Column:
    """Return, for each row, the slot in which the device leaves next after ``slot``."""
    if not fleet.absences or not len(device):
        return np.full(len(device), NEVER, dtype=np.int64)
    away, leaves, _ = fleet.absence_table.columns
    order = np.lexsort((leaves, away))
    # Devices and slots as one number, in which the slots of a device follow one another.
    bits = max(int(leaves.max()), int(slot.max())).bit_length()
    known = np.concatenate([(away[order] << bits) + leaves[order], [NEVER]])
    row = np.searchsorted(known, (device.astype(np.int64) << bits) + slot, side="right")
    owner, times = np.append(away[order], NONE), np.append(leaves[order], NEVER)
    return np.where(owner[row] == device, times[row], NEVER)
