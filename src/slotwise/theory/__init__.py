"""The paper's closed forms and the convergence bound."""

from slotwise.theory.closed_forms import (
    cycle_slots,
    effective_staleness,
    free_delay,
    round_end,
    round_slots,
    rounds_within,
    staleness,
    sync_round_slots,
    sync_rounds,
    version,
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
