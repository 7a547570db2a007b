"""The paper's closed forms and the convergence bound."""

from slotwise.theory.closed_forms import cycle_slots as cycle_slots
from slotwise.theory.closed_forms import effective_staleness as effective_staleness
from slotwise.theory.closed_forms import free_delay as free_delay
from slotwise.theory.closed_forms import groups_per_chain as groups_per_chain
from slotwise.theory.closed_forms import round_end as round_end
from slotwise.theory.closed_forms import round_slots as round_slots
from slotwise.theory.closed_forms import rounds_within as rounds_within
from slotwise.theory.closed_forms import staleness as staleness
from slotwise.theory.closed_forms import sync_round_slots as sync_round_slots
from slotwise.theory.closed_forms import sync_rounds as sync_rounds
from slotwise.theory.closed_forms import version as version
