"""The policies that have a short name: synchronous, asynchronous and intentional-delay FL.

To add one, write its class and name it in `POLICIES`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_value, user_errors
from slotwise.fleet import Fleet
from slotwise.options import Choice, Derived, UserFunction, loaded
from slotwise.options.checks import LARGEST_SEED, Value, whole
from slotwise.scenario import Scenario
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.free_delay import automatic_delay
from slotwise.schedule.just_in_time import just_in_time_delivery
from slotwise.schedule.learned import PARTICIPANTS, LearnedParticipants, decides
from slotwise.schedule.learning_state import Agent
from slotwise.schedule.policy import Booking, Delay, Delivery, FixedDelay, Policy
from slotwise.schedule.selections import SELECTIONS, Selection, first_ready
from slotwise.schedule.timeline import Column

BOOKED = ("round-robin", "random")  # known in advance; the others are selections, which the Scheduler asks
Participation = Any  # one of BOOKED, a `Selection`, or a `UserFunction`
_ASKED = {name: chosen for name, chosen in SELECTIONS.items() if name not in ("first-ready", *BOOKED)}
PARTICIPATION = Choice(
    "participation", {**{name: name for name in BOOKED}, **_ASKED, **PARTICIPANTS}, own=(2, 3)
)


@dataclass(frozen=True, kw_only=True)
class Synchronous(Value, Policy):
    """Synchronous FL; with S < N, federated averaging with partial participation (McMahan et al., 2017).

    Attributes:
        participation: Devices that take part in a round of sync with S < N: round-robin, random (drawn anew
            for every round), best-channel, proportional-fair, largest-age, shortest-uplink; by what is
            learned, power-of-choice, oort, update-norm, loss-proportional; or your own module:function, which
            chooses one device after another as a selection does, or all of a round by what is learned.
    """

    name: ClassVar[str] = "sync"
    participation: Annotated[Participation, PARTICIPATION] = "round-robin"
    seed: Annotated[int, Derived()] = 0  # of the random participation

    def __post_init__(self) -> None:
        whole("seed", self.seed, 0, LARGEST_SEED)
        super().__post_init__()

    def ready(self, seed: int | None = None) -> Self:
        """Return the policy with functions of the user's imported and, if one is given, another seed."""
        participation = loaded(self.participation)
        if seed is not None and isinstance(participation, LearnedParticipants):
            participation = replace(participation, seed=seed)
        policy = replace(super().ready(seed), participation=participation)
        return policy if seed is None else replace(policy, seed=seed)

    @property
    def agents(self) -> Mapping[DecisionKind, Agent]:
        """What decides by what is learned, if anything does."""
        participation = loaded(self.participation)
        return {**super().agents, **({"participants": participation} if decides(participation) else {})}

    def without_agents(self) -> Self:
        """Return the policy that decides nothing by what is learned."""
        participation = "round-robin" if "participants" in self.agents else self.participation
        return replace(super().without_agents(), participation=participation)

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another schedule of the same devices."""
        drawn = bool(getattr(self.participation, "depends_on_seed", False))
        return self.participation == "random" or drawn or super().depends_on_seed

    @property
    def in_turn(self) -> bool:
        """True if devices send as they get ready, and the participants are known in advance."""
        return self.selection is first_ready and self.participation in BOOKED

    @property
    def plans(self) -> bool:
        """True if it is a subclass, which may have another delivery."""
        return type(self) is not Synchronous

    def delivery(self, scenario: Scenario, fleet: Fleet, rounds: int | None) -> Participants:  # noqa: ARG002
        """Return the choice of participants among the scenario's devices."""
        return Participants(scenario.devices, scenario.group_size, self.participation, self.seed)


@dataclass(frozen=True)
class Participants(Delivery):
    """The S participants of round k receive w_k."""

    devices: int
    group_size: int
    participation: Participation = "round-robin"
    seed: int = 0
    delay = 0
    waits_for_all = True

    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        """Book the participants of round 0 for w_0."""
        if self.participation in BOOKED:
            yield 0, self.participants(0, absent)

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:  # noqa: ARG002
        """Book the next participants for the new model, no matter who has sent."""
        if self.participation in BOOKED:
            yield round_number + 1, self.participants(round_number + 1, absent)

    @property
    def participant_selection(self) -> Selection | None:
        """The selection that chooses the participants, if they are not known in advance."""
        return None if self.participation in BOOKED else self.participation

    def joining(self, round_number: int) -> None:
        """Return None: a device that joins has to be chosen for a round first."""

    def resized(self, group_size: int) -> Participants:
        """Return the choice of ``group_size`` participants."""
        return replace(self, group_size=group_size)

    def participants(self, round_number: int, absent: Set[int] = frozenset()) -> Sequence[int]:
        """Return the devices of a round, ascending: a function of the round and of who is present."""
        if self.participation == "random":
            # A generator for each round, so that a choice does not depend on those asked for before.
            draw = random.Random(f"participants {self.seed} {round_number}")
            everyone = range(1, self.devices + 1)
            present = [n for n in everyone if n not in absent] if absent else everyone
            return sorted(draw.sample(present, min(self.group_size, len(present))))
        # Whoever is absent is replaced by the next in turn; later rounds keep their place in the order.
        first = round_number * self.group_size
        turns = ((first + i) % self.devices + 1 for i in range(self.devices))
        return sorted(islice((n for n in turns if n not in absent), self.group_size))

    def batches(self) -> Iterable[int]:
        """Yield S for every model."""
        return repeat(self.group_size)

    def queue(self, length: int) -> Column:
        """Return the participants of rounds 0, 1, …, the first ``length`` of them."""
        rounds = -(-length // self.group_size)
        if self.participation == "round-robin":
            # Participants finish together, so they send by index: each round is sorted.
            turns = np.arange(rounds * self.group_size, dtype=np.int64) % self.devices + 1
            return np.sort(turns.astype(np.int32).reshape(rounds, -1), axis=1).ravel()[:length]
        drawn = [self.participants(k) for k in range(rounds)]
        return np.array(drawn, dtype=np.int32).ravel()[:length]


@dataclass(frozen=True, kw_only=True)
class Asynchronous(Policy):
    """Asynchronous FL (Algorithm 1): the senders of a round receive the next model."""

    name: ClassVar[str] = "async"
    wait = 0

    @property
    def in_turn(self) -> bool:
        """True if devices send as they get ready."""
        return self.selection is first_ready

    @property
    def plans(self) -> bool:
        """True if it is a subclass, which may have another delivery."""
        return type(self) is not Asynchronous

    def delivery(self, scenario: Scenario, fleet: Fleet, rounds: int | None) -> FixedDelay:  # noqa: ARG002
        """Return the delivery of Algorithm 1."""
        return FixedDelay(scenario.devices, scenario.group_size)


@dataclass(frozen=True, kw_only=True)
class IntentionalDelay(Value, Policy):
    """Intentional delay (Algorithm 2), fixed or just in time.

    A delay is in rounds. "auto" is the largest that costs nothing. If devices are unequal, the group size
    changes or the selection is not first-ready, it is just in time for each device, or one fixed delay where
    that is fresher and all durations are known.

    Attributes:
        delay: Intentional delay alpha of idfl in rounds; auto is the largest that costs nothing.
    """

    name: ClassVar[str] = "idfl"
    delay: Delay = "auto"

    @property
    def in_turn(self) -> bool:
        """True if devices send as they get ready."""
        return self.selection is first_ready

    @property
    def wait(self) -> Delay:
        """The delay that was chosen."""
        return self.delay

    @property
    def plans(self) -> bool:
        """True if the delay has to be found, or it is a subclass, which may have another delivery."""
        return self.delay == "auto" or type(self) is not IntentionalDelay

    def delivery(self, scenario: Scenario, fleet: Fleet, rounds: int | None) -> Delivery:
        """Return a fixed delay, or the plan of just-in-time delivery."""
        if self.delay != "auto":
            delay = scenario.checked_delay(self.delay)
        elif self.has_one_delay(scenario, fleet):
            delay = automatic_delay(scenario)
        else:
            return just_in_time_delivery(self, scenario, fleet, rounds)
        return FixedDelay(scenario.devices, scenario.group_size, delay)

    def has_one_delay(self, scenario: Scenario, fleet: Fleet) -> bool:
        """Return whether the delay that costs nothing is the same for all devices."""
        alike = self.in_turn and self.one_delay and not scenario.group_size_changes
        return alike and fleet.is_equal_to(scenario) and not scenario.has_full_duplex

    def for_planned_slots(self) -> Policy:
        """Return just-in-time delivery alone: it leaves some slack, which durations by chance need."""
        return _JustInTime(selection=self.selection, delay=self.delay)


class _JustInTime(IntentionalDelay):
    """Intentional delay whose "auto" is just-in-time delivery, however good a fixed delay is."""

    one_delay = False


Schedule = Literal["sync", "async", "idfl"]
"""The short names that the paper compares."""

POLICIES: Mapping[str, type[Policy]] = {
    policy.name: policy for policy in (Synchronous, Asynchronous, IntentionalDelay)
}
POLICY = Choice("schedule", POLICIES, own=(1,))
PolicyChoice = Annotated[Policy, POLICY]


def ready_policy(policy: Policy | UserFunction, seed: int = 0) -> Policy:
    """Return a chosen policy with the seed of the run; a user's function is called with the seed.

    Raises:
        UserError: the user's function fails or does not return a Policy.
    """
    if isinstance(policy, Policy):
        return policy.ready(seed)
    make_policy, name = loaded(policy), POLICY.name_of(policy)
    with user_errors(f"schedule {name}"):
        made = make_policy(seed)
    if not isinstance(made, Policy):
        raise UserError(f"schedule {name}: returned {describe_value(made)}, not a Policy")
    return made.ready()
