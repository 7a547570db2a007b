"""Slotframe: slots of a frame that devices own, as in TSCH and DSME; the frame is repeated for ever.

A device sends in slots that it owns and in no others; its uplink is continued in the next one. It receives
and computes at any time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.fleet.windows import FOR_EVER, Reach, Spans, Windows
from slotwise.options.checks import whole

MOST_FRAME_SLOTS = 65_535  # the longest slotframe of TSCH


class OwnedSlot(NamedTuple):
    """A slot of the frame, from 0 on, in which a device may send."""

    slot: int
    device: int


@dataclass(frozen=True)
class Slotframe(Reach):
    """A repeated frame of slots in which devices may send.

    With several sub-channels a slot may have as many owners.

    Attributes:
        frame_slots: Slots of the frame.
        owned_slots: (slot, device) for each slot that a device owns, in any order.
    """

    called: ClassVar[str] = "owned slots"
    always_receives: ClassVar[bool] = True
    splits_uplinks: ClassVar[bool] = True
    frame_slots: int
    owned_slots: tuple[OwnedSlot, ...]

    def __post_init__(self) -> None:
        whole("frame_slots", self.frame_slots, 1, MOST_FRAME_SLOTS)
        owned = tuple(sorted(_checked(owned, self.frame_slots) for owned in self.owned_slots))
        object.__setattr__(self, "owned_slots", owned)
        if not owned:
            raise InputError("owned_slots", "none", "at least one (slot, device)")
        twice = next((pair for pair, count in Counter(owned).items() if count > 1), None)
        if twice is not None:
            raise InputError("owned_slots", list(twice), "listed once")

    @classmethod
    def in_turn(cls, frame_slots: int, devices: int, offset: int = 0) -> Slotframe:
        """Return a frame whose slots from ``offset`` on belong to devices 1 to N, again and again."""
        slots = range(offset, frame_slots)
        owned = tuple(OwnedSlot(slot, place % devices + 1) for place, slot in enumerate(slots))
        if len(owned) < devices:
            allowed = f"at least {offset + devices}: every device owns a slot"
            raise InputError("frame_slots", frame_slots, allowed)
        return cls(frame_slots, owned)

    @cached_property
    def _owned(self) -> Mapping[int, list[int]]:
        """The slots of the frame by device, in order."""
        owned: defaultdict[int, list[int]] = defaultdict(list)
        for slot, device in self.owned_slots:
            owned[device].append(slot)
        return dict(owned)

    def uplink_starts(self, device: int, slot: int, slots: int) -> tuple[int, int]:  # noqa: ARG002
        """Return twice the device's next slot: whether it may start in the one after is looked at then."""
        first = self._slot(device, *self._place(device, slot))
        return first, first

    def uplink(self, device: int, start: int, slots: int) -> tuple[int, bool]:
        """Return the slots from start to end of an uplink, with those of others in between."""
        frame, place = self._place(device, start)
        return self._slot(device, frame, place + slots - 1) + 1 - start, True

    def _place(self, device: int, slot: int) -> tuple[int, int]:
        """Return the frame of ``slot`` and how many of the device's slots in it are before that one."""
        frame, phase = divmod(slot, self.frame_slots)
        return frame, bisect_left(self._owned[device], phase)

    def _slot(self, device: int, frame: int, place: int) -> int:
        """Return the slot of a device that comes ``place`` slots of it after its first one of a frame."""
        owned = self._owned[device]
        frames, place = divmod(place, len(owned))
        return (frame + frames) * self.frame_slots + owned[place]

    def reception_starts(self, device: int, slot: int, slots: int) -> tuple[int, int]:  # noqa: ARG002
        """Return every slot from ``slot`` on: a device receives at any time."""
        return slot, FOR_EVER

    def receives(self, device: int, start: int, end: int) -> bool:  # noqa: ARG002
        """Return True: a broadcast reaches every device."""
        return True

    def uplinks_at_once(self, sub_channels: int, devices: int) -> int:  # noqa: ARG002
        """Return the number of devices: those whose slots differ do not disturb one another."""
        return devices

    def on_air(self, device: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> Spans:
        """Return each slot in which a device sends, as spans of one slot."""
        before = self._slots_before(device, start)
        counts = self._slots_before(device, end) - before
        of_all = np.repeat(np.arange(len(device)), counts)
        within = np.arange(len(of_all)) - np.repeat(np.cumsum(counts) - counts, counts)
        sender = device.astype(np.int64)[of_all]
        first, owned = self._ranges(sender)
        frames, place = np.divmod(before[of_all] + within, owned)
        slot = frames * self.frame_slots + self._keys[first + place] - sender * self.frame_slots
        return sender, slot, slot + 1

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        """device · frame_slots + slot, sorted: the slots of one device after those of another."""
        slot, device = np.array(self.owned_slots, dtype=np.int64).T
        return np.sort(device * self.frame_slots + slot)

    def _ranges(self, device: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first of each device's entries in the keys, and their number."""
        first, after = np.searchsorted(self._keys, [d * self.frame_slots for d in (device, device + 1)])
        return first, after - first

    def _slots_before(self, device: NDArray[Any], slot: NDArray[Any]) -> NDArray[np.int64]:
        """Return how many slots each device owns before a slot."""
        numbers = device.astype(np.int64)
        first, owned = self._ranges(numbers)
        frames, phase = np.divmod(slot, self.frame_slots)
        in_frame = np.searchsorted(self._keys, numbers * self.frame_slots + phase) - first
        return np.asarray(frames * owned + in_frame, dtype=np.int64)

    def check(self, devices: int, sub_channels: int | None = None) -> None:
        """Raise an InputError if a device owns no slot, or more own one than there are sub-channels."""
        last = max(self._owned)
        if last > devices:
            raise InputError("owned_slots", f"device {last}", f"devices from 1 to {devices}")
        none = next((n for n in range(1, devices + 1) if n not in self._owned), None)
        if none is not None:
            raise InputError("owned_slots", f"none of device {none}", "at least one for every device")
        slot, owners = Counter(slot for slot, _ in self.owned_slots).most_common(1)[0]
        if sub_channels is not None and owners > sub_channels:
            shared = f"slot {slot} of {owners} devices"
            allowed = f"owned by at most {sub_channels}, the number of sub-channels"
            raise InputError("owned_slots", shared, allowed)

    def refuse_unfit(self, uplinks: Iterable[int], broadcast: int, *, known: bool) -> None:  # noqa: ARG002
        """Raise an InputError if the slots of an uplink are not known in advance."""
        if not known:
            allowed = "omitted over links whose uplinks may take any number of slots"
            raise InputError("frame_slots", self.frame_slots, allowed)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        return {
            "frame_slots": self.frame_slots,
            "owned_slots": [list(owned) for owned in self.owned_slots],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Slotframe:
        """Return what `as_dict` describes."""
        return cls(document["frame_slots"], tuple(OwnedSlot(*owned) for owned in document["owned_slots"]))


def reach_from(document: Mapping[str, Any]) -> Reach:
    """Return the windows or the frame that `as_dict` describes."""
    return (Slotframe if "owned_slots" in document else Windows).from_dict(document)


def _checked(owned: Any, frame_slots: int) -> OwnedSlot:
    try:
        slot, device = owned
    except (TypeError, ValueError):
        raise InputError("owned_slots", owned, "pairs of a slot and a device") from None
    try:
        return OwnedSlot(whole("slot", slot, 0, frame_slots - 1), whole("device", device))
    except InputError as error:
        allowed = f"such that {error.parameter} is {error.allowed}"
        raise InputError("owned_slots", list(owned), allowed) from None
