"""The policies that have a short name, one file each. To add one, write its file and name it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from slotwise.options import Choice
from slotwise.schedule.policies.asynchronous import Asynchronous as Asynchronous
from slotwise.schedule.policies.intentional_delay import IntentionalDelay as IntentionalDelay
from slotwise.schedule.policies.synchronous import Synchronous as Synchronous
from slotwise.schedule.policy import Policy

Schedule = Literal["sync", "async", "idfl"]
"""The short names that the paper compares."""

POLICIES: Mapping[str, type[Policy]] = {
    policy.name: policy for policy in (Synchronous, Asynchronous, IntentionalDelay)
}
POLICY = Choice("schedule", POLICIES, own=(1,))
PolicyChoice = Annotated[Policy, POLICY]
