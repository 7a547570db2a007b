"""Absences: when devices are away, as columns, because a run may have a million of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, cast, overload

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.options.checks import LARGEST, whole

Slots = NDArray[np.int64]
_FOR_GOOD = 2**62  # the slot in the column ``returns`` of a device that does not return


class Absence(NamedTuple):
    """An absence from slot ``leaves`` until slot ``returns``; for good if that is None.

    A device that joins late is absent from slot 0 on.
    """

    device: int
    leaves: int
    returns: int | None = None


class Absences(Sequence[Absence]):
    """The absences of all devices in order of time; equal to any other sequence of the same."""

    def __init__(self, columns: Slots) -> None:
        """Take rows of device, leaves and returns, ordered by the second and then the first."""
        self.columns = columns
        columns.flags.writeable = False

    @classmethod
    def of(cls, absences: Iterable[Sequence[int | None]], devices: int) -> Absences:
        """Check absences and sort them; a device must be present for a slot between two of them."""
        rows = absences if isinstance(absences, Absences) else cls._read(absences)
        outside = rows.columns[0][rows.columns[0] > devices]
        if len(outside):
            raise InputError("absences", f"device {outside[0]}", f"devices from 1 to {devices}")
        return rows

    @classmethod
    def drawn(cls, device: Slots, leaves: Slots, returns: Slots) -> Absences:
        """Return absences that were drawn in any order; those that end beyond all slots are for good."""
        returns = np.where(returns > LARGEST, _FOR_GOOD, returns)
        order = _order(leaves, device)
        return cls(np.stack([device[order], leaves[order], returns[order]]))

    @classmethod
    def _read(cls, absences: Iterable[Sequence[Any]]) -> Absences:
        until: dict[int, int] = {}
        rows = sorted((_checked(*absence) for absence in absences), key=itemgetter(1, 0))
        for device, leaves, returns in rows:
            # A slot in between keeps Left and Joined of a device apart: events of one slot have no order.
            if leaves <= until.get(device, -1):
                allowed = "one after another for each device, with a slot in between"
                raise InputError("absences", f"device {device}, slots {leaves} to {returns}", allowed)
            until[device] = _FOR_GOOD if returns is None else returns
        columns = [(n, leaves, _FOR_GOOD if to is None else to) for n, leaves, to in rows]
        return cls(np.array(columns, dtype=np.int64).reshape(-1, 3).T.copy())

    @property
    def events(self) -> tuple[Slots, Slots]:
        """Departures and returns: rows of slots and devices, in order of time."""
        device, leaves, returns = self.columns
        late = slice(int(np.searchsorted(leaves, 1)), None)  # who is absent in slot 0 does not leave
        slots, devices = returns[returns < _FOR_GOOD], device[returns < _FOR_GOOD]
        back = np.stack([slots, devices])[:, _order(slots, devices)]
        return np.stack([leaves[late], device[late]]), back

    @cached_property
    def by_device(self) -> Mapping[int, Sequence[Absence]]:
        """The absences of each device that has some, in order of time."""
        found: defaultdict[int, list[Absence]] = defaultdict(list)
        for absence in self:
            found[absence.device].append(absence)
        return dict(found)

    @cached_property
    def departures(self) -> Mapping[int, Sequence[int]]:
        """The slots in which each device leaves."""
        return {n: [absence.leaves for absence in absences] for n, absences in self.by_device.items()}

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, place: int) -> Absence: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Absence]: ...

    def __getitem__(self, place: int | slice) -> Absence | Sequence[Absence]:
        if isinstance(place, slice):
            return Absences(self.columns[:, place])
        device, leaves, returns = self.columns[:, place].tolist()
        return Absence(device, leaves, None if returns == _FOR_GOOD else returns)

    def __iter__(self) -> Iterator[Absence]:
        for device, leaves, returns in zip(*self.columns.tolist(), strict=True):
            yield Absence(device, leaves, None if returns == _FOR_GOOD else returns)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Absences):
            return np.array_equal(self.columns, other.columns)
        return isinstance(other, Sequence) and len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Absences, (self.columns,)

    def __repr__(self) -> str:
        return repr(tuple(self))


def _order(slots: Slots, devices: Slots) -> NDArray[np.intp]:
    """Return the order of slots, and of devices within a slot."""
    # One key for both: slots have at most 30 bits and devices 32. It sorts several times as fast as two.
    return np.argsort((slots << 32) + devices)


def _checked(device: int, leaves: int, returns: int | None = None) -> Absence:
    plain = type(device) is type(leaves) is type(returns) is int  # most are, and there may be a million
    if plain and 1 <= device <= LARGEST and 0 <= leaves < cast("int", returns) <= LARGEST:
        return Absence(device, leaves, returns)
    try:
        device, leaves = whole("device", device), whole("leaves", leaves, smallest=0)
        until = None if returns is None else whole("returns", returns, smallest=leaves + 1)
        return Absence(device, leaves, until)
    except InputError as error:
        absence = [device, leaves] if returns is None else [device, leaves, returns]
        raise InputError("absences", absence, f"such that {error.parameter} is {error.allowed}") from None
