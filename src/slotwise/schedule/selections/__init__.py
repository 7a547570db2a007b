"""The selections that have a short name, one file each. To add one, write its file and name it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from slotwise.options import Choice
from slotwise.schedule.selection import Selection
from slotwise.schedule.selections.best_channel_selection import best_channel as best_channel
from slotwise.schedule.selections.first_ready_selection import first_ready as first_ready
from slotwise.schedule.selections.largest_age_selection import largest_age as largest_age
from slotwise.schedule.selections.proportional_fair_selection import proportional_fair as proportional_fair
from slotwise.schedule.selections.random_selection import RandomSelection as RandomSelection
from slotwise.schedule.selections.round_robin_selection import round_robin as round_robin
from slotwise.schedule.selections.shortest_uplink_selection import shortest_uplink as shortest_uplink

SELECTIONS: Mapping[str, Any] = {
    "first-ready": first_ready,
    "round-robin": round_robin,
    "random": RandomSelection(),
    "best-channel": best_channel,
    "proportional-fair": proportional_fair,
    "largest-age": largest_age,
    "shortest-uplink": shortest_uplink,
}
SELECTION = Choice("selection", SELECTIONS, own=(3,))
SelectionChoice = Annotated[Selection, SELECTION]
