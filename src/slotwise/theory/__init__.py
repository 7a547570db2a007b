"""The paper's closed forms: instant, exact, and honest about where they stop."""

from slotwise.theory.delay import effective_staleness, free_delay
from slotwise.theory.staleness import staleness, version
from slotwise.theory.timing import (
    cycle_slots,
    round_end,
    round_slots,
    rounds_within,
    sync_round_slots,
    sync_rounds,
)

__all__ = [
    "cycle_slots",
    "effective_staleness",
    "free_delay",
    "round_end",
    "round_slots",
    "rounds_within",
    "staleness",
    "sync_round_slots",
    "sync_rounds",
    "version",
]
