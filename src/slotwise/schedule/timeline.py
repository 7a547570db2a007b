"""Timeline: the schedule as a value. What happened on the channel, in whole slots, as immutable columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import UserError
from slotwise.fleet import Fleet
from slotwise.notebook import Displayable
from slotwise.scenario import Scenario

Schedule = Literal["sync", "async", "idfl"]
Column = NDArray[np.integer[Any]]
Uplink = tuple[int, int, int, int, int]  # round, device, version, start, end


@dataclass(frozen=True, eq=False)
class Timeline(Displayable):  # noqa: PLW1641  (compared by columns, never a key)
    """Who sent and received what in which slot, for every completed round.

    Uplink columns have one row per uplink in the order of the channel; broadcast columns one row per round.
    Slots are half-open: an uplink takes [start, end). Devices are numbered from 1. Round k applies the
    updates of its uplinks to w_k and broadcasts w_{k+1}.

    Attributes:
        scenario: the parameters it was made from.
        schedule: "sync", "async" or "idfl".
        delay: the intentional delay alpha, in rounds; None where it is just in time for each device.
        round: the round of each uplink.
        device: its sender.
        version: k̂, the model its update was trained on.
        start: its first slot.
        end: the slot after its last.
        broadcast_start: the first slot of each round's broadcast.
        broadcast_end: the slot at which each round is complete.
        receiver: the devices that receive each model, version after version, w_0 first.
        receiver_offsets: receivers of w_v are rows [offsets[v], offsets[v+1]) of ``receiver``.
        lost: uplinks that took the channel in vain, rows of (round, device, version, start, end).
        fleet: the devices, where they are not the scenario's equal ones.
    """

    scenario: Scenario
    schedule: Schedule
    delay: int | None
    round: Column = field(repr=False)
    device: Column = field(repr=False)
    version: Column = field(repr=False)
    start: Column = field(repr=False)
    end: Column = field(repr=False)
    broadcast_start: Column = field(repr=False)
    broadcast_end: Column = field(repr=False)
    receiver: Column = field(repr=False)
    receiver_offsets: Column = field(repr=False)
    lost: Column = field(repr=False, default_factory=lambda: np.empty((0, 5), dtype=np.int64))
    fleet: Fleet | None = None

    def __post_init__(self) -> None:
        for name in COLUMNS:
            getattr(self, name).flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        mine = (self.scenario, self.schedule, self.delay, self.fleet)
        return mine == (other.scenario, other.schedule, other.delay, other.fleet) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMNS
        )

    def __len__(self) -> int:
        """The number of uplinks."""
        return len(self.device)

    @property
    def rounds(self) -> int:
        """Completed rounds K."""
        return len(self.broadcast_end)

    @property
    def models(self) -> int:
        """Models w_0, …, w_K: what the paper's Table 1 counts."""
        return self.rounds + 1

    @property
    def last_slot(self) -> int:
        """The slot at which the last round is complete."""
        return int(self.broadcast_end[-1])

    @cached_property
    def staleness(self) -> Column:
        """d = k − k̂ of every uplink (eq. 15)."""
        return _read_only(self.round - self.version)

    @cached_property
    def training(self) -> Column:
        """How many updates of the sender were applied before: 0 for a device's first.

        (Trainings that a leaving device broke off do not count here; `schedule.trainings` counts them.)
        """
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
        """The rows of a round's uplinks."""
        return slice(int(self.round_offsets[round_number]), int(self.round_offsets[round_number + 1]))

    def receivers(self, version: int) -> Column:
        """The devices that receive w_version; those of w_0 have it from slot 0 on."""
        return self.receiver[self.receiver_offsets[version] : self.receiver_offsets[version + 1]]

    def received_at(self, version: Column) -> Column:
        """The slot at which the receivers of a model start to compute: its broadcast's end, 0 for w_0."""
        ends = np.concatenate([np.zeros(1, dtype=np.int64), self.broadcast_end])
        return ends[version]

    def first(self, rounds: int) -> Timeline:
        """Its beginning: the first ``rounds`` rounds, or all if there are no more."""
        kept = min(rounds, self.rounds)
        rows, receivers = int(self.round_offsets[kept]), int(self.receiver_offsets[kept + 1])
        return replace(
            self,
            **{name: getattr(self, name)[:rows] for name in ("round", "device", "version", "start", "end")},
            broadcast_start=self.broadcast_start[:kept],
            broadcast_end=self.broadcast_end[:kept],
            receiver=self.receiver[:receivers],
            receiver_offsets=self.receiver_offsets[: kept + 2],
            lost=self.lost[self.lost[:, 0] < kept],
        )

    def max_staleness(self) -> int:
        """The oldest update applied, in rounds; 0 if there is none."""
        return int(self.staleness.max(initial=0))

    def mean_staleness(self) -> float:
        """The mean age of the updates applied, in rounds; 0 if there is none."""
        return float(self.staleness.mean()) if len(self) else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: rounds as a person would list them. Only an unequal fleet is part of it."""
        return {
            "scenario": self.scenario.as_dict(),
            **({} if self.fleet is None else {"fleet": self.fleet.as_dict()}),
            "schedule": self.schedule,
            "delay": self.delay,
            "starters": self.receivers(0).tolist(),
            "rounds": [self._round_as_dict(k) for k in range(self.rounds)],
        }

    def _round_as_dict(self, k: int) -> dict[str, Any]:
        """One round; ``lost`` only if something was."""
        rows = self.uplinks(k)
        columns = (self.round, self.device, self.version, self.start, self.end)
        sent = zip(*(column[rows].tolist() for column in columns), strict=True)
        lost = self.lost[slice(*np.searchsorted(self.lost[:, 0], [k, k + 1]))].tolist()
        return {
            "round": k,
            "uplinks": [_uplink_as_dict(*uplink) for uplink in sent],
            **({"lost": [_uplink_as_dict(*uplink) for uplink in lost]} if lost else {}),
            "broadcast": {
                "start": int(self.broadcast_start[k]),
                "end": int(self.broadcast_end[k]),
                "version": k + 1,
                "receivers": self.receivers(k + 1).tolist(),
            },
        }

    def to_json(self) -> str:
        """The timeline as JSON text; `from_json` gives it back."""
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Timeline:
        """The timeline that `to_json` wrote; a UserError says what is missing or malformed."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise UserError(f"timeline: not JSON: {error}") from None

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Timeline:
        """The timeline that `as_dict` describes."""
        try:
            rounds, scenario = document["rounds"], Scenario(**document["scenario"])
            broadcasts = [entry["broadcast"] for entry in rounds]
            receivers = [document["starters"], *(b["receivers"] for b in broadcasts)]
            return cls(
                scenario=scenario,
                schedule=document["schedule"],
                delay=document["delay"],
                **uplink_columns([row for entry in rounds for row in _rows(entry, entry["uplinks"])]),
                **broadcast_columns([(b["start"], b["end"]) for b in broadcasts], receivers),
                lost=uplink_table([row for entry in rounds for row in _rows(entry, entry.get("lost", ()))]),
                fleet=_fleet_of(document, scenario),
            )
        except UserError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise UserError(f"timeline: malformed: {error!r}") from None


COLUMNS = tuple(f.name for f in fields(Timeline) if f.name not in {"scenario", "schedule", "delay", "fleet"})


def _read_only(column: Column) -> Column:
    column.flags.writeable = False
    return column


def _uplink_as_dict(k: int, device: int, version: int, start: int, end: int) -> dict[str, int]:
    return {"device": device, "version": version, "staleness": k - version, "start": start, "end": end}


def _fleet_of(document: dict[str, Any], scenario: Scenario) -> Fleet | None:
    if "fleet" not in document:
        return None
    fleet = Fleet.from_dict(document["fleet"])
    fleet.check_size(scenario)
    return fleet


def _rows(entry: dict[str, Any], uplinks: Iterable[dict[str, Any]]) -> Iterator[Uplink]:
    """Uplinks of a round in JSON as rows."""
    return ((entry["round"], u["device"], u["version"], u["start"], u["end"]) for u in uplinks)


def uplink_table(rows: Sequence[Uplink]) -> Column:
    """Uplinks as one array of five columns."""
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64).reshape(-1, 5)


def uplink_columns(rows: Sequence[Uplink]) -> dict[str, Column]:
    """Uplinks as named columns."""
    table = uplink_table(rows)
    columns = {"round": np.int32, "device": np.int32, "version": np.int32, "start": np.int64, "end": np.int64}
    return {name: table[:, i].astype(kind) for i, (name, kind) in enumerate(columns.items())}


def broadcast_columns(
    slots: Sequence[tuple[int, int]], receivers: Sequence[Sequence[int]]
) -> dict[str, Column]:
    """Broadcasts as (start, end) and their receivers, those of w_0 first, as named columns."""
    table = np.array(slots, dtype=np.int64).reshape(-1, 2)
    flat = [device for group in receivers for device in group]
    return {
        "broadcast_start": table[:, 0].copy(),
        "broadcast_end": table[:, 1].copy(),
        "receiver": np.array(flat, dtype=np.int32),
        "receiver_offsets": np.cumsum([0, *map(len, receivers)], dtype=np.int64),
    }
