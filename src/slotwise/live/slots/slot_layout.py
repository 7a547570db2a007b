"""SlotLayout: the parts of a slot in time; SlotTiming: what a device of a live run is told of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


class SlotTiming(NamedTuple):
    """Nanoseconds of a slot, from its beginning to the first frame of its sender, and of the guard time."""

    slot_ns: int
    send_after_ns: int
    guard_ns: int

    def field(self) -> str:
        """Return the text in the announcement of a run."""
        return ":".join(map(str, self))

    @classmethod
    def in_field(cls, text: str) -> SlotTiming | None:
        """Return what `field` wrote; None for anything else."""
        if not re.fullmatch("[0-9]{1,18}:[0-9]{1,18}:[0-9]{1,18}", text):
            return None
        timing = cls(*map(int, text.split(":")))
        return timing if 0 <= timing.guard_ns <= timing.send_after_ns < timing.slot_ns else None


@dataclass(frozen=True)
class SlotLayout:
    """A slot is the window of a beacon, a guard time, frames of one sender, and a guard time.

    ``frames`` is the number of frames that a sender may send in one slot.
    """

    slot_ns: int
    guard_ns: int
    frame_bytes: int
    bit_rate: int

    @classmethod
    def for_frames(cls, slot_ns: int, guard_ns: int, frame_bytes: int, frames: int) -> SlotLayout | None:
        """Return the layout with the lowest bit rate for ``frames`` in a slot; None if there is none."""
        each = (slot_ns - 2 * guard_ns) // (frames + 1)
        if each <= 0:
            return None
        return cls(slot_ns, guard_ns, frame_bytes, -(-frame_bytes * 8 * 10**9 // each))

    @property
    def beacon_ns(self) -> int:
        """The time of the longest beacon, at the beginning of every slot."""
        return air_ns(self.frame_bytes, self.bit_rate)

    @property
    def frames(self) -> int:
        """Frames that fit between the two guard times."""
        return max(0, (self.slot_ns - 2 * self.guard_ns) // self.beacon_ns - 1)

    @property
    def send_after_ns(self) -> int:
        """The time from the beginning of a slot to the first frame of its sender."""
        return self.beacon_ns + self.guard_ns

    @property
    def timing(self) -> SlotTiming:
        """What a device has to know to send at its slots."""
        return SlotTiming(self.slot_ns, self.send_after_ns, self.guard_ns)

    def moment(self, first: int, index: int) -> int:
        """Return when frame ``index`` of a message that begins in slot ``first`` should be on the air."""
        slots, place = divmod(index, self.frames)
        return (first + slots) * self.slot_ns + self.send_after_ns + place * self.beacon_ns

    def contains(self, slot: int, start: int, end: int) -> bool:
        """Return whether a frame on the air in [start, end) is between beacon and end of a slot."""
        begin = slot * self.slot_ns
        return begin + self.beacon_ns <= start and end <= begin + self.slot_ns


def air_ns(size: int, bit_rate: int) -> int:
    """Return the nanoseconds of a frame of ``size`` bytes at so many bits per second, rounded up."""
    return -(-size * 8 * 10**9 // bit_rate)
