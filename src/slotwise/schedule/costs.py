"""Costs of a timeline: slots and air time of devices and server and, if powers are known, joules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isclose
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError, MissingError, NoEffectError
from slotwise.base.frozen import EqualByNumbers
from slotwise.schedule.timeline import Column, Timeline, Trainings, departures

POWER_PREFIX = "power_"  # of the options that are fields of Powers, except slot_seconds
LARGEST_POWER = 1_000_000_000  # far above any device, and far below where sums of joules overflow


@dataclass(frozen=True, kw_only=True)
class Powers:
    """Watts that a device and the server draw, and the seconds of a slot.

    Attributes:
        computing: Watts while it trains.
        sending: Watts while it sends, including lost uplinks.
        receiving: Watts while it receives a model.
        idle: Watts while it waits for a model or for the channel.
        server_sending: Watts of the server while it broadcasts.
        server_receiving: Watts of the server while an uplink is on the air.
        server_idle: Watts of the server otherwise.
        slot_seconds: Seconds of one slot. Default: the slot of the run's radio link or CPU, or else 1.
    """

    computing: float
    sending: float
    receiving: float
    idle: float = 0.0
    server_sending: float = 0.0
    server_receiving: float = 0.0
    server_idle: float = 0.0
    slot_seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "slot_seconds" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
                raise InputError(field.name, value, "a finite number, at least 0")
            if value > LARGEST_POWER:
                raise InputError(field.name, value, f"at most {LARGEST_POWER:,}")
        if self.slot_seconds == 0:
            raise InputError("slot_seconds", self.slot_seconds, "above 0")

    @property
    def seconds(self) -> float:
        """Seconds of one slot; 1 if they are not known."""
        return 1.0 if self.slot_seconds is None else self.slot_seconds

    def in_slots_of(self, slot_ms: float | None, said_by: str, *, stated: bool = True) -> Powers:
        """Return the powers with the length of a slot that an option of a run says, or 1 s if none does.

        Raises:
            InputError: the option was ``stated``, and the powers say another length.
        """
        if slot_ms is None:
            return replace(self, slot_seconds=self.seconds)
        if self.slot_seconds is None:
            return replace(self, slot_seconds=slot_ms / 1000)
        if stated and not isclose(self.slot_seconds, slot_ms / 1000):
            allowed = f"{slot_ms / 1000:g}, as {said_by} is {slot_ms:g}, or omitted"
            raise InputError("slot_seconds", self.slot_seconds, allowed)
        return self

    @property
    def has_server(self) -> bool:
        """True if a power of the server is given."""
        return bool(self.server_sending or self.server_receiving or self.server_idle)


def powers_in(given: Mapping[str, float]) -> Powers | None:
    """Return the powers in a table of options: power_computing and so on, and slot_seconds; None if empty."""
    if not given:
        return None
    if [*given] == ["slot_seconds"]:
        raise NoEffectError("slot_seconds", given["slot_seconds"], "without power_computing")
    for name in ("power_computing", "power_sending", "power_receiving"):
        if name not in given:
            raise MissingError(name, "given in watts, like the other powers")
    try:
        return Powers(**{name.removeprefix(POWER_PREFIX): value for name, value in given.items()})
    except InputError as error:
        name = error.parameter if error.parameter in given else POWER_PREFIX + error.parameter
        raise InputError(name, error.value, error.allowed) from None


class Usage(NamedTuple):
    """Slots that each device is present until the last round ends, by activity; device n is entry n−1.

    The fields are arrays, or numbers for all devices together (`total`).
    """

    computing: Any  # including trainings that a departure breaks off
    sending: Any  # air time, including lost uplinks; one broken off by a departure counts until then
    receiving: Any  # broadcasts of models meant for the device, also if they are sent again
    idle: Any  # present, and waiting for the channel or for a model

    @property
    def total(self) -> Usage:
        """The sums over all devices."""
        return Usage(*(int(slots.sum()) for slots in self))


class ServerUsage(NamedTuple):
    """Slots of the server until the last round ends."""

    sending: int  # broadcasts, with models that are sent again
    receiving: int  # slots in which at least one uplink is on the air, lost ones included
    idle: int  # neither; with a band for each direction the server may do both at once

    @property
    def channel_share(self) -> float:
        """Share of the slots in which the channel carries something, if it is one for both directions."""
        return (self.sending + self.receiving) / max(1, sum(self))

    def joules(self, powers: Powers) -> float:
        """Return the server's energy."""
        active = self.sending * powers.server_sending + self.receiving * powers.server_receiving
        return (active + self.idle * powers.server_idle) * powers.seconds


def server_usage(timeline: Timeline) -> ServerUsage:
    """Return the slots in which the server sends, receives and does neither."""
    sending = int((timeline.broadcast_end - timeline.broadcast_start).sum())
    repeated = np.unique(timeline.repeats[:, 2:], axis=0)  # some have several receivers
    sending += int((repeated[:, 1] - repeated[:, 0]).sum())
    _, start, end = _on_air(timeline, timeline.lost[:, 4])
    receiving, busy = _covered(start, end), sending
    if timeline.scenario.has_full_duplex:  # windows, and with them repeats, are not simulated with it
        start = np.concatenate([start, timeline.broadcast_start])
        busy = _covered(start, np.concatenate([end, timeline.broadcast_end])) - receiving
    return ServerUsage(sending, receiving, timeline.last_slot - receiving - busy)


def _covered(start: Column, end: Column) -> int:
    """Return the slots in at least one of some intervals, which may overlap."""
    # In order of their starts, each adds only the slots after the latest end so far.
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    before = np.concatenate([np.zeros(1, dtype=np.int64), until[:-1]])[: len(until)]
    return int(np.maximum(until - np.maximum(start, before), 0).sum())


def usage(timeline: Timeline) -> Usage:
    """Return the slots that each device computes, sends, receives and idles."""
    found = []
    for device, start, end in _spans(timeline):
        slots = np.zeros(timeline.scenario.devices, dtype=np.int64)
        # With ``slots[device - 1] += …`` a device that occurs several times would count once.
        np.add.at(slots, device - 1, end - start)
        found.append(slots)
    # Half-duplex devices do one thing at a time, so what is left is idle.
    *active, away = found
    return Usage._make([*active, timeline.last_slot - away - sum(active)])


def usage_until(timeline: Timeline, slots: Sequence[int]) -> Usage:
    """Return the usage of all devices together before each of ``slots``; entry i is for slots[i]."""
    places, last, found = np.array(slots, dtype=np.int64), timeline.last_slot, []
    for _, start, end in _spans(timeline):
        # Two running sums: of starts minus ends, the devices that are busy in a slot; of these, the
        # device-slots before it. That costs the same for any number of ``slots``.
        began, ended = (np.bincount(times, minlength=last + 1) for times in (start, end))
        busy = np.cumsum(began - ended)[:-1]  # devices, in each slot
        found.append(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(busy)])[places])
    *active, away = found
    return Usage._make([*active, timeline.scenario.devices * places - away - sum(active)])


def spared(timeline: Timeline) -> NDArray[np.float64]:
    """Return the slots at its whole sending power that each device spared by sending with less."""
    device, start, end, power = timeline.reduced.T
    numbers, slots = device.astype(np.int64) - 1, (end - start) * (1 - power)
    found: NDArray[Any] = np.bincount(numbers, slots, timeline.scenario.devices)
    return found.astype(np.float64)


def spared_until(timeline: Timeline, slots: Sequence[int]) -> NDArray[np.float64]:
    """Return what all devices together spared before each of ``slots``."""
    _, start, end, power = timeline.reduced.T
    began, ended = (
        np.bincount(times.astype(np.int64), weights=1 - power, minlength=timeline.last_slot + 1)
        for times in (start, end)
    )
    in_slot = np.cumsum(began - ended)[:-1]
    total: NDArray[np.float64] = np.concatenate([np.zeros(1), np.cumsum(in_slot)])
    return total[np.array(slots, dtype=np.int64)]


def joules(usage: Usage, powers: Powers | Sequence[Powers], spared: Any = 0) -> Any:
    """Return the energy of each entry of ``usage``, or of a total as one number; absent devices use none.

    ``spared`` are slots of sending at the whole power that were spared, as `spared` returns.


    Each device may have powers of its own; there is no total of them here.
    """
    if not isinstance(powers, Powers):
        if len(powers) != len(usage.idle):
            raise InputError("powers", f"{len(powers)} in all", f"{len(usage.idle)}, one for each device")
        less = np.broadcast_to(spared, len(powers))
        rows = zip(*usage, less, powers, strict=True)
        return np.array([joules(Usage(*slots), own, one) for *slots, one, own in rows])
    active = usage.computing * powers.computing + (usage.sending - spared) * powers.sending
    return (active + usage.receiving * powers.receiving + usage.idle * powers.idle) * powers.seconds


class Spread(NamedTuple):
    """Minimum, mean and maximum over the devices."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> Spread:
        """Return minimum, mean and maximum of an array; integers stay integers."""
        return cls(numbers.min().item(), float(numbers.mean()), numbers.max().item())


@dataclass(frozen=True, eq=False)
class Costs(EqualByNumbers):
    """Slots and joules of all devices until the last round ends."""

    slots: int  # at which the last round ends
    usage: Usage  # of each device
    server: ServerUsage
    powers: Powers | Sequence[Powers] | None = None  # None if not known, and then there are no joules
    spared: Any = 0  # slots at its whole sending power that each device spared

    @classmethod
    def of(cls, timeline: Timeline, powers: Powers | Sequence[Powers] | None = None) -> Costs:
        """Return the costs of a whole timeline; ``powers`` are those of every device, or one for each."""
        less = spared(timeline) if len(timeline.reduced) else 0
        return cls(timeline.last_slot, usage(timeline), server_usage(timeline), powers, less)

    @property
    def shares(self) -> dict[str, float]:
        """Share of each activity in the slots that devices are present."""
        total = self.usage.total
        return {name: slots / max(1, sum(total)) for name, slots in total._asdict().items()}

    @property
    def channel_share(self) -> float:
        """Share of the slots in which something is sent, in one direction or both."""
        return (self.slots - self.server.idle) / max(1, self.slots)

    @property
    def air_slots(self) -> Spread:
        """Air time of a device: the slots in which it sends, including lost uplinks."""
        return Spread.of(self.usage.sending)

    @property
    def joules(self) -> float | None:
        """Energy of all devices together; None if powers are not known."""
        if self.powers is None or isinstance(self.powers, Powers):
            total = np.sum(self.spared).item()
            return None if self.powers is None else joules(self.usage.total, self.powers, total)
        return float(joules(self.usage, self.powers, self.spared).sum())

    @property
    def server_joules(self) -> float | None:
        """Energy of the server; None if its powers are not known."""
        if not isinstance(self.powers, Powers) or not self.powers.has_server:
            return None
        return self.server.joules(self.powers)

    @property
    def joules_of_a_device(self) -> Spread | None:
        """Energy of a device; None if powers are not known."""
        return None if self.powers is None else Spread.of(joules(self.usage, self.powers, self.spared))

    def as_dict(self) -> dict[str, Any]:
        """Return the totals by name; joules only if powers are known."""
        air = self.air_slots._asdict()
        figures = {"slots": self.slots, **self.usage.total._asdict(), "air_slots_of_a_device": air}
        if self.joules_of_a_device is not None:
            figures |= {"joules": self.joules, "joules_of_a_device": self.joules_of_a_device._asdict()}
        if self.server_joules is not None:
            figures |= {"server": self.server._asdict() | {"joules": self.server_joules}}
        return figures

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one array per quantity, with an entry for each device; ``away`` are slots of absence."""
        columns: dict[str, NDArray[Any]] = {
            "device": np.arange(1, len(self.usage.idle) + 1),
            **self.usage._asdict(),
            "away": self.slots - np.sum(self.usage, axis=0),
        }
        if self.powers is None:
            return columns
        return columns | {"joules": joules(self.usage, self.powers, self.spared)}

    def devices(self) -> Iterator[dict[str, Any]]:
        """Yield the numbers of each device by name."""
        columns = self.columns()
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, row, strict=True))


def _spans(timeline: Timeline) -> Iterator[tuple[Column, Column, Column]]:
    """Yield (device, start, end) of computing, sending, receiving and absence; departures cut the others."""
    done, last = Trainings.of(timeline), timeline.last_slot
    start = np.minimum(done.start, last)
    # Clipped twice: the trainings of the last receivers begin at the end, and a device that leaves while
    # it waits for energy would have a negative length.
    yield (done.device, start, np.clip(np.minimum(done.ready, done.departure), start, last))
    _, device, _, begun, end = timeline.lost.T
    # Uplinks that arrived need no cut: one during which its device leaves is lost.
    yield _on_air(timeline, np.minimum(end, departures(timeline.fleet, device, begun)))
    yield (done.device, done.arrival, np.minimum(done.received, done.departure))
    absences = timeline.fleet.absences
    away = [(n, leaves, last if returns is None else returns) for n, leaves, returns in absences]
    device, start, end = np.array(away, dtype=np.int64).reshape(-1, 3).T
    yield (device, np.minimum(start, last), np.minimum(end, last))


def _on_air(timeline: Timeline, lost_until: Column) -> tuple[Column, Column, Column]:
    """Return (device, start, end) of the slots with uplinks; lost ones count until a slot of each."""
    device = np.concatenate([timeline.device, timeline.lost[:, 1]])
    start = np.concatenate([timeline.start, timeline.lost[:, 3]])
    end, reach = np.concatenate([timeline.end, lost_until]), timeline.fleet.windows
    return (device, start, end) if reach is None else reach.on_air(device, start, end)
