"""Synchronous FL: a round's participants all train on the newest model, and send when all have finished."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from slotwise.fleet import Fleet
from slotwise.options import Choice, Derived, loaded
from slotwise.scenario import LARGEST_SEED, Scenario, check_fields, whole
from slotwise.schedule.equal_devices import equal_devices_timeline
from slotwise.schedule.one_at_a_time import one_at_a_time
from slotwise.schedule.policy import Booking, Delivery, Policy
from slotwise.schedule.selection import Selection
from slotwise.schedule.selections import SELECTIONS
from slotwise.schedule.selections.first_ready_selection import first_ready
from slotwise.schedule.timeline import Column, Timeline

BOOKED = ("round-robin", "random")  # known in advance; the others are selections, which the Scheduler asks
Participation = Any  # one of BOOKED, a `Selection`, or a `UserFunction`
_ASKED = {name: chosen for name, chosen in SELECTIONS.items() if name not in ("first-ready", *BOOKED)}
PARTICIPATION = Choice("participation", {**{name: name for name in BOOKED}, **_ASKED}, own=(3,))


@dataclass(frozen=True, kw_only=True)
class Synchronous(Policy):
    """Synchronous FL; with S < N, federated averaging with partial participation (McMahan et al., 2017).

    Attributes:
        participation: Devices that take part in a round of sync with S < N: round-robin, random (drawn anew
            for every round), best-channel, proportional-fair, largest-age, shortest-uplink, or your own
            module:function, which chooses one device after another as a selection does.
    """

    name: ClassVar[str] = "sync"
    participation: Annotated[Participation, PARTICIPATION] = "round-robin"
    seed: Annotated[int, Derived()] = 0  # of the random participation

    def __post_init__(self) -> None:
        whole("seed", self.seed, 0, LARGEST_SEED)
        check_fields(self)

    def ready(self, seed: int | None = None) -> Self:
        """Return the policy with functions of the user's imported and, if one is given, another seed."""
        policy = replace(super().ready(seed), participation=loaded(self.participation))
        return policy if seed is None else replace(policy, seed=seed)

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another schedule of the same devices."""
        return self.participation == "random" or super().depends_on_seed

    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Participants:  # noqa: ARG002
        """Return the choice of participants among the scenario's devices."""
        return Participants(scenario.devices, scenario.group_size, self.participation, self.seed)

    def fast_path(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Timeline | None:
        """Return the timeline of devices that send in the order in which they get ready."""
        if self.participation not in BOOKED:
            return None
        if fleet is not None:
            return one_at_a_time(scenario, self, fleet, rounds)
        if self.selection is not first_ready or scenario.group_size_changes:
            return None
        delivery, sizes = self.delivery(scenario, None, rounds), repeat(scenario.group_size)
        return equal_devices_timeline(scenario, self.name, 0, sizes, delivery.queue, rounds)


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

    def queue(self, length: int) -> Column:
        """Return the participants of rounds 0, 1, …, the first ``length`` of them."""
        rounds = -(-length // self.group_size)
        if self.participation == "round-robin":
            # Participants finish together, so they send by index: each round is sorted.
            turns = np.arange(rounds * self.group_size, dtype=np.int64) % self.devices + 1
            return np.sort(turns.astype(np.int32).reshape(rounds, -1), axis=1).ravel()[:length]
        drawn = [self.participants(k) for k in range(rounds)]
        return np.array(drawn, dtype=np.int32).ravel()[:length]
