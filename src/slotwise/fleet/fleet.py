"""Fleet: the speed, link, losses and absences of every device, as one frozen value.

Everything random about a fleet is a function of its seed, the device and the number of models that it has
received (jitter) or of uplinks that it has started (losses). So a schedule does not depend on the order of
questions, and running it again gives it again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property
from itertools import count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from slotwise.base.errors import ConflictError, InputError
from slotwise.base.random_streams import SchedulePurpose, chance, chances
from slotwise.fleet.absences import Absence, Absences
from slotwise.fleet.battery import Batteries
from slotwise.fleet.slotframe import reach_from
from slotwise.fleet.windows import Reach
from slotwise.options.checks import LARGEST_SEED, whole
from slotwise.scenario import Scenario

Retransmission = Literal["next-turn", "at-once", "erasure"]
_NO_ABSENCES = Absences.of((), 0)
_AT_ONCE = 64  # random numbers of one purpose and device that are drawn at once


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """N devices, each with its own speed and link.

    Attributes:
        compute_slots: slots of one local training, device by device.
        link_slots: slots of one uplink, device by device; a broadcast takes the scenario's.
        jitter: a training takes up to this share longer or shorter, drawn anew for each.
        uplink_loss: the probability that an uplink arrives damaged.
        device_uplink_loss: that probability device by device, instead of one for all.
        retransmission: when it is sent again: at once, when its turn comes next, or (erasure) never.
        absences: the absences of all devices.
        seed: the seed of jitter and losses.
        batteries: the batteries of the devices; None if energy is no matter.
        compute_changes: (slot, compute slots device by device) of each later speed: a training whose model
            is complete in that slot or later takes so many slots.
        windows: when devices can send and receive, or the slots that they own; None if they always can.
    """

    compute_slots: tuple[int, ...]
    link_slots: tuple[int, ...]
    jitter: float = 0.0
    uplink_loss: float = 0.0
    retransmission: Retransmission = "next-turn"
    absences: Sequence[Absence] = ()
    seed: int = 0
    device_uplink_loss: tuple[float, ...] = ()
    batteries: Batteries | None = None
    compute_changes: tuple[tuple[int, tuple[int, ...]], ...] = ()
    windows: Reach | None = None

    def __post_init__(self) -> None:
        for name in ("compute_slots", "link_slots"):
            given = _listed(name, getattr(self, name))
            if not given:
                raise InputError(name, "empty", "a number for each device, and at least one")
            for number in {number for number in given if type(number) is int}:  # of many devices few differ
                whole(name, number)
            numbers = tuple(number if type(number) is int else whole(name, number) for number in given)
            object.__setattr__(self, name, numbers)
        if len(self.link_slots) != len(self.compute_slots):
            allowed = f"as many as compute_slots, {len(self.compute_slots)}"
            raise InputError("link_slots", f"{len(self.link_slots)} numbers", allowed)
        if not 0 <= self.jitter < 1:
            raise InputError("jitter", self.jitter, "a number from 0 to below 1")
        if not 0 <= self.uplink_loss < 1:
            raise InputError("uplink_loss", self.uplink_loss, "a probability from 0 to below 1")
        object.__setattr__(self, "device_uplink_loss", self._checked_losses())
        object.__setattr__(self, "compute_changes", _checked_speeds(self.compute_changes, self.devices))
        if self.retransmission not in get_args(Retransmission):
            raise InputError("retransmission", self.retransmission, "next-turn, at-once or erasure")
        whole("seed", self.seed, 0, LARGEST_SEED)
        if self.batteries is not None:
            self.batteries.check_size(self.devices)
        if self.windows is not None:
            self.windows.check(self.devices)
            if self.batteries is not None:
                raise ConflictError("windows", "batteries", "energy and windows are not simulated together")
        object.__setattr__(self, "absences", Absences.of(self.absences, self.devices))

    def _checked_losses(self) -> tuple[float, ...]:
        losses = _listed("device_uplink_loss", self.device_uplink_loss)
        if losses and self.uplink_loss:
            raise ConflictError("uplink_loss", "device_uplink_loss")
        if losses and len(losses) != self.devices:
            raise InputError("device_uplink_loss", f"{len(losses)} numbers", f"{self.devices}, one a device")
        for device, loss in enumerate(losses, 1):
            if isinstance(loss, bool) or not isinstance(loss, int | float) or not 0 <= loss < 1:
                allowed = "a probability from 0 to below 1"
                raise InputError("device_uplink_loss", f"{loss} of device {device}", allowed)
        return tuple(map(float, losses)) if any(losses) else ()

    @classmethod
    def equal(cls, scenario: Scenario) -> Fleet:
        """Return the devices of the paper: all equal and without faults.

        It holds three numbers. The slots are listed device by device when they are asked for: for a
        million devices that takes longer than to simulate some rounds.
        """
        fleet = object.__new__(cls)
        slots = scenario.compute_slots, scenario.link_slots
        fleet.__dict__.update(_USUAL, slots_of_all=slots, equal_devices=scenario.devices)
        return fleet

    if not TYPE_CHECKING:  # with it, any attribute would seem to exist

        def __getattr__(self, name: str) -> tuple[int, ...]:
            if name not in ("compute_slots", "link_slots") or "equal_devices" not in self.__dict__:
                raise AttributeError(name)
            slots = self.slots_of_all[name == "link_slots"]
            return self.__dict__.setdefault(name, (slots,) * self.equal_devices)

    @property
    def devices(self) -> int:
        """The number of devices N."""
        return vars(self).get("equal_devices") or len(self.compute_slots)

    @property
    def faultless(self) -> bool:
        """True if there are no jitter, losses, absences, windows, batteries and changes of compute slots."""
        random = self.jitter or self.uplink_loss or self.device_uplink_loss
        away = self.absences or self.windows
        return not (random or away or self.batteries or self.compute_changes)

    @property
    def is_foreseeable(self) -> bool:
        """True if all is known in advance and every broadcast reaches every device."""
        reach = self.windows
        return self.faultless or (
            reach is not None and reach.always_receives and replace(self, windows=None).faultless
        )

    @property
    def is_steady(self) -> bool:
        """True if all trainings of a device take equally many slots."""
        return not (self.jitter or self.compute_changes)

    @property
    def largest_loss(self) -> float:
        """The probability with which the device with the worst link loses an uplink."""
        return max(self.device_uplink_loss, default=self.uplink_loss)

    @cached_property
    def slots_of_all(self) -> tuple[int, int] | None:
        """Slots of a training and of an uplink, if they are the same for all devices."""
        compute, link = set(self.compute_slots), set(self.link_slots)
        return (*compute, *link) if len(compute) == len(link) == 1 else None  # type: ignore[return-value]

    def is_equal_to(self, scenario: Scenario, *, lossy_link: bool = False) -> bool:
        """Return whether these are the scenario's equal devices, without faults.

        Over a link that may lose uplinks the retransmission makes a difference, too.
        """
        usual = self.faultless and (not lossy_link or self.retransmission == Fleet.retransmission)
        return usual and self.slots_of_all == (scenario.compute_slots, scenario.link_slots)

    def is_same(self, other: Fleet) -> bool:
        """Return whether these are the same devices; equal ones are not listed for it."""
        if all("equal_devices" in vars(fleet) for fleet in (self, other)):
            return (self.slots_of_all, self.devices) == (other.slots_of_all, other.devices)
        return self is other or self == other

    def of_scenario(self, scenario: Scenario, *, lossy_link: bool = False) -> Fleet:
        """Return the devices, which are those of `equal` if they are the scenario's own, however described.

        Raises:
            InputError: the scenario has more or fewer devices.
        """
        if self.devices != scenario.devices:
            allowed = f"of {scenario.devices}, the number of devices"
            raise InputError("fleet", f"of {self.devices} devices", allowed)
        if self.windows is not None:
            self.windows.check(self.devices, scenario.sub_channels)
        return Fleet.equal(scenario) if self.is_equal_to(scenario, lossy_link=lossy_link) else self

    def compute_slots_at(self, device: int, slot: int) -> int:
        """Return the slots of a training, without jitter, whose model is complete in ``slot``."""
        last = bisect_right(self.compute_changes, slot, key=itemgetter(0))
        slots = self.compute_changes[last - 1][1] if last else self.compute_slots
        return slots[device - 1]

    def slots_of_training(self, device: int, training: int, slot: int = 0) -> int:
        """Return the slots of a training, jitter included.

        ``training`` counts the models received before, and ``slot`` is when its model is complete.
        """
        slots = self.compute_slots_at(device, slot)
        if not self.jitter:
            return slots
        share = self.jitter * (2 * chance(self.seed, SchedulePurpose.JITTER, device, training) - 1)
        return max(1, round(slots * (1 + share)))

    def training_slots(self, device: int) -> Iterator[int]:
        """Yield `slots_of_training` of all trainings of a device, whose compute slots never change."""
        slots = self.compute_slots[device - 1]
        if not self.jitter:
            # This never ends, so the loop below is only for jitter.
            yield from repeat(slots)
        for drawn in _all_chances(self.seed, SchedulePurpose.JITTER, device):
            yield max(1, round(slots * (1 + self.jitter * (2 * drawn - 1))))

    def losses(self, device: int) -> Iterator[bool]:
        """Yield what `loses` returns for all attempts of a device, the first one first."""
        loss = self.device_uplink_loss[device - 1] if self.device_uplink_loss else self.uplink_loss
        if not loss:
            yield from repeat(False)
        for drawn in _all_chances(self.seed, SchedulePurpose.UPLINK_LOSS, device):
            yield drawn < loss

    def without_faults(self) -> Fleet:
        """Return the same devices without faults; each training takes as long as the longest one may.

        Windows stay: they are known beforehand.
        """
        listed = zip(self.compute_slots, *(slots for _, slots in self.compute_changes), strict=True)
        longest = tuple(max(1, round(max(slots) * (1 + self.jitter))) for slots in listed)
        faults: dict[str, Any] = {"jitter": 0.0, "uplink_loss": 0.0, "device_uplink_loss": (), "absences": ()}
        return replace(self, compute_slots=longest, compute_changes=(), batteries=None, **faults)

    def loses(self, device: int, attempt: int) -> bool:
        """Return whether the device's uplink number ``attempt`` (from 0, over the whole run) is lost."""
        loss = self.device_uplink_loss[device - 1] if self.device_uplink_loss else self.uplink_loss
        return loss > 0 and chance(self.seed, SchedulePurpose.UPLINK_LOSS, device, attempt) < loss

    def leaves_within(self, device: int, slot: int, end: int) -> bool:
        """Return whether the device leaves after ``slot`` and before ``end``."""
        return self.departure(device, slot, end) < end

    def departure(self, device: int, slot: int, end: int) -> int:
        """Return the slot in which the device leaves after ``slot``, or ``end`` if that comes first."""
        leaves = self.absence_table.departures.get(device, ())
        following = bisect_right(leaves, slot)
        return min(end, leaves[following]) if following < len(leaves) else end

    @property
    def absence_table(self) -> Absences:
        """The absences, as columns and by device."""
        return cast("Absences", self.absences) if self.absences else _NO_ABSENCES

    @property
    def absent_at_first(self) -> frozenset[int]:
        """The devices that are absent in slot 0."""
        device, leaves, _ = self.absence_table.columns
        return frozenset(device[leaves == 0].tolist())

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        lists = {"compute_slots": list(self.compute_slots), "link_slots": list(self.link_slots)}
        rows = {"absences": [absence._asdict() for absence in self.absences]}
        table = asdict(replace(self, absences=())) | lists | rows
        table["batteries"] = None if self.batteries is None else self.batteries.as_dict()
        table["windows"] = None if self.windows is None else self.windows.as_dict()
        beyond = {"device_uplink_loss": (), "batteries": None, "compute_changes": (), "windows": None}
        return {name: value for name, value in table.items() if name not in beyond or value != beyond[name]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Fleet:
        """Return the fleet that `as_dict` describes; earlier versions call the uplink loss ``loss``."""
        absences = tuple(Absence(**absence) for absence in document.get("absences", ()))
        values = {"uplink_loss" if name == "loss" else name: value for name, value in document.items()}
        batteries = None if not document.get("batteries") else Batteries.from_dict(document["batteries"])
        windows = None if not document.get("windows") else reach_from(document["windows"])
        return cls(**{**values, "absences": absences, "batteries": batteries, "windows": windows})


_USUAL = {item.name: item.default for item in fields(Fleet) if item.default is not MISSING}


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, Iterable):
        raise InputError(name, values, "a list with one number for each device")
    return tuple(values)


def _checked_speeds(changes: Any, devices: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return (slot, compute slots of each device) of each change; slots must ascend from 1 on."""
    allowed = "pairs of a slot and compute slots, one number or one for each device"
    found: list[tuple[int, tuple[int, ...]]] = []
    for change in _listed("compute_changes", changes):
        if not isinstance(change, list | tuple) or len(change) != 2:
            raise InputError("compute_changes", change, allowed)
        slot = whole("compute_changes", change[0], found[-1][0] + 1 if found else 1)
        listed = change[1] if isinstance(change[1], list | tuple) else (change[1],) * devices
        if len(listed) != devices:
            raise InputError("compute_changes", f"{len(listed)} numbers", f"1 or {devices}, one a device")
        found.append((slot, tuple(whole("compute_changes", slots) for slots in listed)))
    return tuple(found)


def _all_chances(*key: int) -> Iterator[float]:
    """Yield ``chance(*key, number)`` of the numbers 0, 1, …; many are drawn at once."""
    for first in count(0, _AT_ONCE):
        yield from chances(key, np.arange(first, first + _AT_ONCE, dtype=np.uint64)).tolist()
