"""SlotUse: a granted uplink as it was used, and the record of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.base.files import damaged, read_document
from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.report.gantt.overlay_chart import Outcome

FORMAT = 1
FILE = "slots.json"  # in the folder of a live run whose slots are time


class SlotUse(NamedTuple):
    """Slots [first, end) as they were used."""

    round: int
    device: int
    version: int
    first: int
    end: int
    outcome: Outcome
    offset_ns: int | None  # of its first frame that was heard, from the planned moment; positive: later


def read_uses(path: Path) -> list[SlotUse] | None:
    """Return the record in a file; None if there is none."""
    if not path.is_file():
        return None
    try:
        return [SlotUse(*use) for use in read_document(path, FORMAT, "uses")["uses"]]
    except TypeError:
        raise damaged(path) from None


def layout_figures(layout: SlotLayout) -> dict[str, int]:
    """Return the beginning of a record: its format, and the parts of a slot."""
    return {
        "format": FORMAT,
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
