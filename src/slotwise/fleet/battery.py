"""Batteries: what devices store, harvest and pay for computing and sending, in whole nanojoules.

Whole numbers make every sum exact, so a schedule with batteries is as reproducible as one without. A device
pays for all slots of a training or an uplink when it starts. What it harvests in a slot it has from the next
slot on; what does not fit into the battery is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import ceil, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import ConflictError, InputError
from slotwise.base.random_streams import SchedulePurpose, chances, device_states
from slotwise.options.checks import LARGEST_SEED, whole

NANOJOULES = 1_000_000_000  # of a joule
MOST_JOULES = 1_000_000_000.0  # so that a battery fits 64 bits, in nanojoules
MOST_HARVEST = 1_000_000.0  # joules of a slot, so that the sum of a chunk of slots does
LONGEST_WAIT = 10_000_000  # slots; a device that cannot pay after so many never can
_MANY = 64  # devices, from which compiled code is worth its loading
_FIRST_CHUNK, _CHUNK = 128, 4096  # slots that are drawn together: few at first, as most waits are short


@dataclass(frozen=True, kw_only=True)
class Batteries:
    """Batteries of N devices; each number is a joule figure of one device, or of all if there is only one.

    Attributes:
        capacity: joules that a battery holds.
        initial: joules it holds in slot 0; by default it is full.
        computing: joules of one slot of computing.
        sending: joules of one slot of sending.
        harvest: joules harvested in a slot.
        probability: probability of harvesting them, drawn for each device and slot.
        trace: joules harvested by every device in slot 0, 1, …, instead of harvest; nothing after its end.
        seed: seed of the harvest.
    """

    capacity: tuple[float, ...]
    computing: tuple[float, ...]
    sending: tuple[float, ...]
    initial: tuple[float, ...] = ()
    harvest: tuple[float, ...] = (0.0,)
    probability: float = 1.0
    trace: tuple[float, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("capacity", "computing", "sending", "initial", "harvest", "trace"):
            most = MOST_HARVEST if name in ("harvest", "trace") else MOST_JOULES
            object.__setattr__(self, name, _joules(name, getattr(self, name), most))
        if not isinstance(self.probability, int | float) or not 0 < self.probability <= 1:
            raise InputError("probability", self.probability, "above 0 and at most 1")
        if self.trace and (any(self.harvest) or self.probability != 1):
            raise ConflictError("harvest", "trace")
        whole("seed", self.seed, 0, LARGEST_SEED)
        most = max(len(self.initial), len(self.capacity))
        each = (joules * most if len(joules) == 1 else joules for joules in (self.initial, self.capacity))
        for initial, capacity in zip(*each, strict=False):  # other lengths are refused by `check_size`
            if initial > capacity:
                raise InputError("initial", initial, f"at most the capacity, {capacity}")

    def check_size(self, devices: int) -> None:
        """Raise an InputError unless every list has one number, or one for each device."""
        for name in ("capacity", "computing", "sending", "initial", "harvest"):
            count = len(getattr(self, name))
            if count not in (1, devices) and not (name == "initial" and count == 0):
                raise InputError(name, f"{count} numbers", f"1, or {devices}, one for each device")

    def nanojoules(self, name: str, device: int) -> int:
        """Return a figure of a device in nanojoules; ``name`` is that of a field."""
        # Only ``initial`` may be empty, and then the battery is full.
        values: tuple[float, ...] = getattr(self, name) or self.capacity
        return round(NANOJOULES * (values[0] if len(values) == 1 else values[device - 1]))

    def harvested(self, device: int, first: int, end: int) -> NDArray[np.int64]:
        """Return the nanojoules harvested in slots ``first`` to ``end`` − 1."""
        if self.trace:
            part = np.zeros(end - first, dtype=np.int64)
            known = self.trace[first:end]
            part[: len(known)] = np.rint(np.array(known) * NANOJOULES)
            return part
        amount = self.nanojoules("harvest", device)
        if self.probability == 1:
            return np.full(end - first, amount, dtype=np.int64)
        drawn = chances((self.seed, SchedulePurpose.HARVEST, device), np.arange(first, end, dtype=np.uint64))
        return np.where(drawn < self.probability, amount, 0).astype(np.int64)

    def harvested_until(self, device: int, first: int, end: int) -> int:
        """Return the sum of `harvested`."""
        if self.trace or self.probability < 1:
            # Chunks bound the memory: a device may have been idle for millions of slots.
            parts = range(first, end, _CHUNK)
            return sum(int(self.harvested(device, a, min(a + _CHUNK, end)).sum()) for a in parts)
        return (end - first) * self.nanojoules("harvest", device)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Batteries:
        """Return the batteries that `as_dict` describes."""
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in document.items()}
        return cls(**fields)


class Ledger:
    """The charge of every battery in the course of a run. Questions and payments come in order of time."""

    def __init__(self, batteries: Batteries, devices: int) -> None:
        batteries.check_size(devices)
        self._batteries, everyone = batteries, range(1, devices + 1)
        self._capacity = [batteries.nanojoules("capacity", n) for n in everyone]
        self._slot = [0] * devices  # up to which the harvest is in the charge
        self.initial = [min(batteries.nanojoules("initial", n), self._capacity[n - 1]) for n in everyone]
        self.charge = list(self.initial)
        self.harvested, self.spilled, self.spent = ([0] * devices for _ in range(3))
        self._harvested_until = self._compiled(devices) or batteries.harvested_until

    def _compiled(self, devices: int) -> Callable[[int, int, int], int] | None:
        """Return `Batteries.harvested_until` of harvests by chance, compiled; None if it is not needed."""
        batteries = self._batteries
        if batteries.probability == 1 or devices < _MANY or find_spec("numba") is None:
            return None
        from slotwise.base.random_kernel import count_below  # noqa: PLC0415  (compiled code loads slowly)

        states = device_states(batteries.seed, SchedulePurpose.HARVEST, devices)
        amounts = [batteries.nanojoules("harvest", device) for device in range(1, devices + 1)]
        limit = np.uint64(ceil(batteries.probability * 2**53))  # a chance has 53 bits
        return lambda device, first, end: (
            amounts[device - 1] * count_below(states[device - 1], first, end, limit)
        )

    def charge_at(self, device: int, slot: int) -> int:
        """Return the charge of a device at the beginning of a slot, with all that is harvested by then."""
        place = device - 1
        if slot > self._slot[place]:
            gained = self._harvested_until(device, self._slot[place], slot)
            # Nothing is paid between the two slots, so one cut at the capacity equals a cut in every slot.
            total = self.charge[place] + gained
            self.charge[place] = min(total, self._capacity[place])
            self.harvested[place] += gained
            self.spilled[place] += total - self.charge[place]
            self._slot[place] = slot
        return self.charge[place]

    def first_slot(self, device: int, needed: int, slot: int) -> int | None:
        """Return the first slot from ``slot`` on in which the device has ``needed``; None if it never has."""
        missing = needed - self.charge_at(device, slot)
        if missing <= 0:
            return slot
        batteries, end = self._batteries, slot + LONGEST_WAIT
        if needed > self._capacity[device - 1]:
            return None
        if not batteries.trace and batteries.probability == 1:
            each = batteries.nanojoules("harvest", device)
            # After n = ceil(missing / each) slots: what slot + n − 1 harvests counts from slot + n on.
            found = slot - (-missing // each) if each else end + 1
            return found if found <= end else None
        if batteries.trace:
            end = min(end, max(slot, len(batteries.trace)))
        elif not batteries.nanojoules("harvest", device):
            return None
        # The sums ignore the capacity: below ``needed``, which fits the battery, nothing spills.
        first, chunk = slot, _FIRST_CHUNK
        while first < end:
            gained = np.cumsum(batteries.harvested(device, first, min(first + chunk, end)))
            place = int(np.searchsorted(gained, missing))
            if place < len(gained):
                # The first slot with which the sum is enough; its harvest counts from the next slot on.
                return first + place + 1
            missing -= int(gained[-1])
            first, chunk = first + chunk, min(2 * chunk, _CHUNK)
        return None

    def pay(self, device: int, amount: int, slot: int) -> None:
        """Take an amount out of the battery in a slot."""
        if self.charge_at(device, slot) < amount:
            raise AssertionError(f"device {device} cannot pay {amount} nJ in slot {slot}")
        self.charge[device - 1] -= amount
        self.spent[device - 1] += amount


def nanojoules_at(each: int, power: float) -> int:
    """Return the energy of a slot at a part of the power that takes ``each``, in whole nanojoules."""
    return each if power == 1 else round(each * power)


def _joules(name: str, values: float | Sequence[float], most: float) -> tuple[float, ...]:
    numbers = (values,) if isinstance(values, int | float) else tuple(values)
    for number in numbers:
        fits = isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number)
        if not fits or not 0 <= number <= most:
            raise InputError(name, number, f"joules from 0 to {most:,.0f}")
    return tuple(map(float, numbers))
