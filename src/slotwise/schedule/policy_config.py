"""PolicyConfig: the options that name a policy and its selection."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from slotwise.errors import InputError, UserError
from slotwise.option_types import check_fields
from slotwise.schedule.policies import POLICIES
from slotwise.schedule.policies.intentional_delay import Delay
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import Policy
from slotwise.schedule.selection import check_selection_name, selection_named
from slotwise.user_code import describe_error, is_function_name, load_function


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """Who receives which model and who sends when.

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
        if self.schedule not in POLICIES and not is_function_name(self.schedule):
            raise InputError("schedule", self.schedule, f"{', '.join(POLICIES)} or module:function")
        check_selection_name(self.selection)

    @property
    def depends_on_seed(self) -> bool:
        """Whether another seed gives another schedule of the same devices."""
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
            if field.name not in names and value != field.default and (field.name, value) != ("delay", 0):
                allowed = f"{field.default} for the schedule {self.schedule}"
                raise InputError(field.name, value, allowed)
        if chosen is None:
            return self._user_policy(seed)
        options = {"delay": self.delay, "participation": self.participation, "seed": seed}
        given: dict[str, Any] = {name: value for name, value in options.items() if name in names}
        return chosen(selection=selection_named(self.selection, seed), **given)

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
