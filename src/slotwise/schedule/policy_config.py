"""PolicyConfig: short names of policies and selections, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from slotwise.errors import InputError, UserError
from slotwise.scenario import check_fields
from slotwise.schedule.policies import POLICIES
from slotwise.schedule.policies.intentional_delay import Delay
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import Policy
from slotwise.schedule.selection import RandomSelection, Selection, first_ready, round_robin
from slotwise.user_code import describe_error, is_function_name, load_function

SELECTIONS: Mapping[str, Selection] = {
    "first-ready": first_ready,
    "round-robin": round_robin,
    "random": RandomSelection(),
}


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """The schedule and its options.

    Attributes:
        schedule: The schedule: sync, async, idfl, or your own policy as module:function.
        delay: Intentional delay of idfl in rounds; auto is the largest that costs nothing.
        participation: Devices that take part in a round of sync with S < N: round-robin or random.
        selection: Who sends next: first-ready, round-robin, random, or your own module:function.
    """

    schedule: str = "idfl"
    delay: Delay = "auto"
    participation: Participation = "round-robin"
    selection: str = "first-ready"

    def __post_init__(self) -> None:
        check_fields(self)
        for name, known in (("schedule", POLICIES), ("selection", SELECTIONS)):
            value = getattr(self, name)
            if value not in known and not is_function_name(value):
                raise InputError(name, value, f"{', '.join(known)} or module:function")

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another schedule of the same devices."""
        return self.policy().depends_on_seed

    def policy(self, seed: int = 0) -> Policy:
        """Return the policy; a user's function is called with the seed.

        Raises:
            InputError: an option has no effect on the chosen schedule.
            UserError: the user's function fails or does not return a Policy.
        """
        chosen = POLICIES.get(self.schedule)
        names = {field.name for field in fields(chosen)} if chosen else set()
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            usual = (field.default, 0) if field.name == "delay" else (field.default,)
            if field.name not in names and value not in usual:
                allowed = " or ".join(map(str, usual))
                raise InputError(field.name, value, f"{allowed} for the schedule {self.schedule}")
        if chosen is None:
            return self._user_policy(seed)
        options = {"delay": self.delay, "participation": self.participation, "seed": seed}
        given: dict[str, Any] = {name: value for name, value in options.items() if name in names}
        return chosen(selection=self._selection(seed), **given)

    def _selection(self, seed: int) -> Selection:
        if self.selection == "random":
            return RandomSelection(seed)
        return SELECTIONS.get(self.selection) or load_function("selection", self.selection)

    def _user_policy(self, seed: int) -> Policy:
        make_policy = load_function("schedule", self.schedule)
        try:
            policy = make_policy(seed)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"schedule {self.schedule}: {describe_error(error)}") from error
        if not isinstance(policy, Policy):
            raise UserError(f"schedule {self.schedule}: returned {type(policy).__name__}, not a Policy")
        return policy
