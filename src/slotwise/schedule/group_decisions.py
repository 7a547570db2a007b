"""What the devices of a group get when it begins, decided by the caller instead of the link."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

import numpy as np

from slotwise.schedule.decisions import Answer, Decision, DecisionKind
from slotwise.schedule.link import Allocated, AllocatingLink
from slotwise.schedule.scheduler import Scheduler


def ask_for_group(
    scheduler: Scheduler,
    link: AllocatingLink,
    devices: Sequence[int],
    slot: int,
    asks: Collection[DecisionKind],
) -> Generator[Decision, Answer | None, Allocated]:
    """Yield what is to be decided when devices begin to send, blocks first; return what each of them gets."""
    group = link.group(devices, slot)

    def decision(kind: DecisionKind, blocks: Sequence[int] = ()) -> Decision:
        return Decision(
            kind,
            slot,
            scheduler.round,
            tuple(devices),
            group.blocks if kind == "blocks" else len(devices),
            devices[-1],
            scheduler.group_size,
            group,
            blocks,
            _seen=lambda: scheduler.seen_of_senders(devices),
        )

    blocks: Sequence[int] | None = None
    if "blocks" in asks:
        asked = decision("blocks")
        blocks = asked.checked((yield asked))  # type: ignore[assignment]
    allocated = link.allocated(group, blocks)
    if "power" in asks:
        asked = decision("power", tuple(allocated.blocks.tolist()))
        allocated = allocated._replace(power=np.array(asked.checked((yield asked))))
    return allocated
