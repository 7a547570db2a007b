"""SlotLayout: the parts of a slot in time."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.live.slots.medium import air_ns


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

    def moment(self, first: int, index: int) -> int:
        """Return when frame ``index`` of a message that begins in slot ``first`` should be on the air."""
        slots, place = divmod(index, self.frames)
        return (first + slots) * self.slot_ns + self.send_after_ns + place * self.beacon_ns

    def contains(self, slot: int, start: int, end: int) -> bool:
        """Return whether a frame on the air in [start, end) is between beacon and end of a slot."""
        begin = slot * self.slot_ns
        return begin + self.beacon_ns <= start and end <= begin + self.slot_ns
