"""SlotUse: a granted uplink as it was used, and the record of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.report.gantt.overlay_chart import Outcome


class SlotUse(NamedTuple):
    """Slots [first, end) as they were used."""

    round: int
    device: int
    version: int
    first: int
    end: int
    outcome: Outcome
    offset_ns: int | None  # of its first frame that was heard, from the planned moment; positive: later


def layout_figures(layout: SlotLayout) -> dict[str, int]:
    """Return the parts of a slot as a record has them."""
    return {
        "slot_ns": layout.slot_ns,
        "guard_ns": layout.guard_ns,
        "frame_bytes": layout.frame_bytes,
        "bit_rate": layout.bit_rate,
        "frames_per_slot": layout.frames,
    }


def use_figures(uses: Iterable[SlotUse]) -> dict[str, Any]:
    """Return the number of uplinks by outcome, and the largest deviation from a planned moment."""
    outcomes: Counter[str] = Counter()
    largest = 0
    for use in uses:
        outcomes[use.outcome] += 1
        largest = max(largest, abs(use.offset_ns or 0))
    return {"outcomes": dict(outcomes.most_common()), "largest_offset_ns": largest}
