"""fitting_layout: the parts of slots into which the messages of a run fit."""

from __future__ import annotations

from slotwise.base.errors import InputError
from slotwise.fleet import Fleet
from slotwise.live import protocol
from slotwise.live.protocol import MAX_DEVICES, Label
from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.schedule import FleetLink, Link

RUN_DIGITS, LONGEST_LOSS = 16, 32  # of the identifier of a run, and of a loss
MILLISECOND = 10**6  # nanoseconds


def longest_messages(size: int, update_bytes: int, devices: int) -> tuple[int, int]:
    """Return the bytes of the longest update and of the longest model; ``size`` numbers are in a model."""
    label = Label("0" * RUN_DIGITS, MAX_DEVICES, 10**9, 10**9, 10**9)
    update = protocol.encode(label, bytes(update_bytes), slot=str(10**18), loss="0" * LONGEST_LOSS)
    named = ",".join(f"{n}:{10**9}" for n in range(1, devices + 1))
    model = protocol.encode(label, bytes(4 * size), slot=str(10**18), receivers=named)
    return len(update), len(model)


def frames_needed(fleet: Fleet, link: Link, update: int, model: int) -> int:
    """Return the frames in a slot that a run needs, if updates and models have so many."""
    # Over other links the slots of an uplink follow from the channel, and may be as few as one.
    fixed = isinstance(link, FleetLink)
    uplink = min(fleet.link_slots) if fixed else 1
    broadcast = link.planned_broadcast_slots if fixed else 1
    return max(-(-update // uplink), -(-model // broadcast))


def fitting_layout(
    slot_ms: float, guard_ms: float, frame_bytes: int, needed: int, bit_rate: int | None = None
) -> SlotLayout:
    """Return slots with room for ``needed`` frames; without a bit rate, at the lowest.

    Raises:
        InputError: they do not fit.
    """
    slot_ns, guard_ns = round(slot_ms * MILLISECOND), round(guard_ms * MILLISECOND)
    lowest = SlotLayout.for_frames(slot_ns, guard_ns, frame_bytes, needed)
    if lowest is None:
        shortest = (2 * guard_ns + needed + 1) / MILLISECOND
        allowed = f"above {shortest:g}: two guard times and {needed + 1} frames"
        raise InputError("slot_ms", slot_ms, allowed)
    if bit_rate is None:
        return lowest
    layout = SlotLayout(slot_ns, guard_ns, frame_bytes, bit_rate)
    if layout.frames < needed:
        allowed = f"at least {lowest.bit_rate:,}: {needed} frames have to fit into a slot"
        raise InputError("bit_rate", bit_rate, allowed)
    return layout
