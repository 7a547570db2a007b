"""Scenario: the parameters of a slotted channel and its devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from slotwise.base.errors import InputError
from slotwise.options import NoFlag, OrText
from slotwise.options.checks import (
    whole,
    whole_number,
)

Duplex = Literal["tdd", "fdd"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """N equal devices that share one channel; all times are whole slots.

    Attributes:
        devices: N, the number of devices (clients).
        group_size: S, the uplinks of one training round; ``50@0, 10@10000`` changes it at the first round
            whose model is broadcast in slot 10000 or later.
        compute_slots: tau_comp, the slots of one local training.
        link_slots: r, the slots of one uplink and of one broadcast.
        deadline: T, the slots available for training.
        group_size_changes: (slot, S) of each later group size, which a text as group_size gives too.
        sub_channels: C, the devices that may send at once; a broadcast takes all sub-channels.
        duplex: tdd (uplinks and broadcasts take turns) or fdd: broadcasts have a band of their own.
    """

    devices: int
    group_size: Annotated[int, OrText()]
    compute_slots: int
    link_slots: int = 1
    deadline: int | None = None
    group_size_changes: Annotated[tuple[tuple[int, int], ...], NoFlag()] = ()
    sub_channels: int = 1
    duplex: Duplex = "tdd"

    def __post_init__(self) -> None:
        if isinstance(self.group_size, str):
            (_, first), *changes = parse_sizes("group_size", self.group_size)
            object.__setattr__(self, "group_size", first)
            object.__setattr__(self, "group_size_changes", changes)
        for name in ("devices", "group_size", "compute_slots", "link_slots", "sub_channels"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "group_size_changes", checked_changes("group_size", self.group_size_changes))
        for size in self.group_sizes:
            if size > self.devices:
                allowed = f"from 1 to {self.devices}, the number of devices"
                raise InputError("group_size", size, allowed)
        if self.deadline is not None:
            object.__setattr__(self, "deadline", whole("deadline", self.deadline))
        if self.duplex not in get_args(Duplex):
            raise InputError("duplex", self.duplex, "tdd or fdd")

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """All group sizes, in the order in which they apply."""
        return (self.group_size, *(size for _, size in self.group_size_changes))

    @property
    def group_size_text(self) -> str:
        """The group size as options write it: ``10``, or ``50@0, 10@10000`` if it changes."""
        return sizes_text(self.group_size, self.group_size_changes)

    def with_group_size(self, size: int) -> Scenario:
        """Return the scenario with one group size from the first round on."""
        return replace(self, group_size=size, group_size_changes=())

    @property
    def has_full_duplex(self) -> bool:
        """True if the server can receive while it broadcasts."""
        return self.duplex == "fdd"

    def refuse_changes(self) -> None:
        """Raise an InputError for closed forms, which assume one group size and one band."""
        if self.has_full_duplex:
            raise InputError("duplex", self.duplex, "tdd for closed forms; simulate() is exact for both")
        if self.group_size_changes:
            allowed = "one number for closed forms; simulate() is exact for a size that changes"
            raise InputError("group_size", self.group_size_text, allowed)

    @property
    def groups(self) -> int:
        """G = ceil(N/S), the number of TDMA groups."""
        return -(-self.devices // self.group_size)

    @property
    def divides(self) -> bool:
        """True if S divides N, as the paper's closed forms assume."""
        return self.devices % self.group_size == 0

    @property
    def communication_slots(self) -> int:
        """tau_comm = r(S+1): S uplinks and one broadcast (eq. 6); r(ceil(S/C)+1) with C sub-channels."""
        return self.link_slots * (-(-self.group_size // self.sub_channels) + 1)

    @property
    def largest_delay(self) -> int:
        """The largest intentional delay with which S devices are always left to send.

        A delay of ``a`` rounds keeps a·S devices waiting, so N − a·S must be at least S. That is G−1 if S
        divides N, and one less otherwise. If the group size changes, the largest counts.
        """
        return self.devices // max(self.group_sizes) - 1

    def checked_delay(self, delay: object) -> int:
        """Return ``delay`` as an int, or raise an InputError if it does not leave S devices to send."""
        number = whole_number(delay)
        if number is None or not 0 <= number <= self.largest_delay:
            raise InputError("delay", delay, f"a whole number from 0 to {self.largest_delay}")
        return number

    def check_horizon(self, rounds: int | None) -> None:
        """Refuse to play without an end: a number of rounds, or a deadline."""
        if rounds is not None:
            whole("rounds", rounds)
        elif self.deadline is None:
            raise InputError("rounds", None, "given, unless the scenario has a deadline")

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters by name, as JSON and tables show them; those beyond the paper only if set."""
        table, beyond = asdict(self), {"group_size_changes": (), "sub_channels": 1, "duplex": "tdd"}
        return {name: value for name, value in table.items() if value != beyond.get(name, NoneType)}


def sizes_text(first: int, changes: Sequence[tuple[int, int]]) -> str:
    """Return a size as options write it: ``10``, or ``50@0, 10@10000`` if it changes."""
    return ", ".join(f"{size}@{slot}" for slot, size in ((0, first), *changes)) if changes else str(first)


def compute_slots(local_steps: int, batch_size: int, samples_per_slot: float | Decimal | Fraction) -> int:
    """Return tau_comp = ceil(H·B/q) (eq. 4), exactly: 7 samples at 0.7 a slot are 10 slots, not 11.

    A float is read as the decimal number a person wrote, not as its nearest binary fraction.
    """
    samples = whole("local_steps", local_steps) * whole("batch_size", batch_size)
    return slots_for_samples(samples, samples_per_slot)


def slots_for_samples(samples: int, samples_per_slot: float | Decimal | Fraction) -> int:
    """Return the slots of a training that processes so many samples, exactly."""
    is_number = isinstance(samples_per_slot, Real | Decimal) and not isinstance(samples_per_slot, bool)
    # As a Fraction, 1e99999999 would have a hundred million digits, which take for ever.
    if not is_number or not 1e-300 < samples_per_slot < 1e300:
        raise InputError("samples_per_slot", samples_per_slot, "a number above 0")
    return -(-samples // Fraction(str(samples_per_slot)))


def parse_sizes(name: str, text: str) -> list[tuple[int, int]]:
    """Return (slot, size) for each part of a text such as ``50@0, 10@10000``; the first slot is 0."""
    parts = [re.fullmatch(r"\s*([0-9]{1,10})\s*@\s*([0-9]{1,10})\s*", part) for part in text.split(",")]
    sizes = [(int(part[2]), int(part[1])) for part in parts if part is not None]
    if len(sizes) != len(parts):
        raise InputError(name, repr(text), "a whole number, or sizes by slot such as 50@0, 10@10000")
    if sizes[0][0] != 0:
        raise InputError(name, repr(text), "sizes by slot from slot 0 on, such as 50@0, 10@10000")
    return sizes


def checked_changes(name: str, changes: Any) -> tuple[tuple[int, int], ...]:
    """Return (slot, size) of each change as integers; slots must ascend."""
    before, found, allowed = 0, [], f"pairs of a slot and a {name.replace('_', ' ')}"
    if not isinstance(changes, list | tuple):
        raise InputError(f"{name}_changes", changes, allowed)
    for change in changes:
        if not isinstance(change, list | tuple) or len(change) != 2:
            raise InputError(f"{name}_changes", change, allowed)
        slot, size = whole(name, change[0], before + 1), whole(name, change[1])
        found.append((slot, size))
        before = slot
    return tuple(found)
