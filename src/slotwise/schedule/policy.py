"""Policy and Delivery: who receives which model, and who sends next.

A `Policy` is a frozen value that knows nothing about a scenario. `Policy.delivery` binds it to one: the
`Delivery` it returns says who receives which model. The selection says who sends next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import ClassVar, Literal, Protocol, Self

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_value
from slotwise.fleet import Fleet
from slotwise.options import loaded, resolved
from slotwise.scenario import Scenario
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.learned import FIXED, GROUP_RULE, GroupRuleChoice, decides
from slotwise.schedule.learning_state import Agent
from slotwise.schedule.selections import SELECTION, RandomSelection, Selection, SelectionChoice, first_ready
from slotwise.schedule.timeline import Column

Booking = tuple[int, Sequence[int]]  # (model version, devices that receive it)
Delay = int | Literal["auto"]


class Delivery(ABC):
    """Rule that decides who receives which model. It holds no state: the Scheduler keeps the bookings.

    A device may be booked for a model only while it has nothing else to do: before its first training, after
    its update has arrived, or when it joins. Bookings for absent devices are ignored.

    Attributes:
        delay: the intentional delay in rounds; None if devices wait for different numbers of rounds.
        waits_for_all: whether no uplink starts while a device still computes (synchronous FL).
        turns: the slot planned for the uplink of (device, version), which then decides who sends next
            instead of the selection; None if nothing is planned.
        devices: the number of devices; only a delivery with a `participant_selection` needs it.
    """

    devices: int
    delay: int | None = None
    waits_for_all: bool = False
    turns: Mapping[tuple[int, int], int] | None = None

    @property
    def participant_selection(self) -> Selection | None:
        """The selection by which the Scheduler chooses the participants of each round among those present.

        None if the bookings of `initial` and `after` decide.
        """
        return None

    @abstractmethod
    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        """Return the bookings made before the first slot; version 0 costs no broadcast."""

    @abstractmethod
    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:
        """Return the bookings made when all uplinks of a round have arrived; its broadcast comes next."""

    def resized(self, group_size: int) -> Delivery:  # noqa: ARG002
        """Return the delivery for rounds of another group size, from the next `after` on."""
        return self

    def joining(self, round_number: int) -> int | None:
        """Return the model for a device that joins in this round; None if `after` has to choose it first."""
        return round_number + 1


class Batched(Protocol):
    """A delivery that says in advance in which order equal devices send (`batches_timeline`)."""

    delay: int

    def batches(self) -> Iterable[int]:
        """Yield the number of receivers of w_0, w_1, …"""
        ...

    def queue(self, length: int) -> Column:
        """Return the first ``length`` devices that receive a model, in the order in which they send."""
        ...


@dataclass(frozen=True)
class FixedDelay(Delivery):
    """Algorithms 1 and 2: the senders of round k receive w_{k+delay+1}; delay 0 is asynchronous FL.

    Devices 1..(G−delay)S start from w_0 and the next groups of S receive w_1, …, w_delay. If S does not
    divide N, the last group is the short one.
    """

    devices: int
    group_size: int
    delay: int = 0

    def initial(self, absent: Set[int]) -> Iterable[Booking]:  # noqa: ARG002
        """Return Algorithm 2's initial sets: S_{−alpha−1}, then one group for each of w_1, …, w_alpha."""
        groups = -(-self.devices // self.group_size)
        last = min((groups - self.delay) * self.group_size, self.devices)
        yield 0, range(1, last + 1)
        for version in range(1, self.delay + 1):
            first, last = last + 1, min(last + self.group_size, self.devices)
            yield version, range(first, last + 1)

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:  # noqa: ARG002
        """Follow line 13 of Algorithm 2: the server sends w_{k+1} to S_{k−alpha}."""
        # This holds for any group size: only the initial sets depend on it, so `resized` changes nothing.
        yield round_number + self.delay + 1, senders

    def batches(self) -> Iterable[int]:
        """Yield the number of receivers of w_0, w_1, …: the initial sets, then S each."""
        initial = (len(devices) for _, devices in self.initial(frozenset()))
        return chain(initial, repeat(self.group_size))

    def queue(self, length: int) -> Column:
        """Return equal devices in the order in which they send: 1..N, then each round's senders again.

        The senders of a round are sorted, because they all receive the same model and then tie. It only
        matters if S does not divide N. All rounds within N places of the known part are sorted at once.
        """
        devices, size = self.devices, self.group_size
        queue = np.empty(max(length, devices), dtype=np.int32)
        queue[:devices] = np.arange(1, devices + 1)
        known, copied = devices, 0
        while known < length:
            # Only rounds whose senders are all known can be sorted and appended.
            rounds = min((known - copied) // size, -(-(length - known) // size))
            block = np.sort(queue[copied : copied + rounds * size].reshape(rounds, size), axis=1).ravel()
            part = block[: length - known]
            queue[known : known + len(part)] = part
            known, copied = known + len(part), copied + rounds * size
        return queue[:length]


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A schedule: who receives which model, and who sends next.

    Attributes:
        selection: Who sends next: first-ready, round-robin, random, best-channel, proportional-fair,
            largest-age, shortest-uplink, or your own module:function.
        group_rule: Group size of later rounds: fixed, shrink-when-stalled, or your own as module:function,
            which decides it by what is learned.
    """

    name: ClassVar[str]  # the name that a Timeline carries
    one_delay: ClassVar[bool] = True  # all devices may get the same delay, if that is best
    selection: SelectionChoice = first_ready
    group_rule: GroupRuleChoice = FIXED

    def __post_init__(self) -> None:
        if isinstance(self.selection, str):
            object.__setattr__(self, "selection", resolved(SELECTION, self.selection))
        if isinstance(self.group_rule, str):
            object.__setattr__(self, "group_rule", resolved(GROUP_RULE, self.group_rule))

    def ready(self, seed: int | None = None) -> Self:
        """Return the policy with functions of the user's imported and, if one is given, another seed."""
        selection, rule = loaded(self.selection), loaded(self.group_rule)
        if seed is not None and isinstance(selection, RandomSelection):
            selection = RandomSelection(seed)
        same = selection is self.selection and rule is self.group_rule
        return self if same else replace(self, selection=selection, group_rule=rule)

    @property
    def agents(self) -> Mapping[DecisionKind, Agent]:
        """What decides by what is learned, if anything does: such a schedule is made while it is trained."""
        agents: dict[DecisionKind, Agent] = {}
        if self.group_rule != FIXED:
            agents["group_size"] = loaded(self.group_rule)
        if decides(selection := loaded(self.selection)):
            agents["sender"] = selection
        return agents

    def without_agents(self) -> Self:
        """Return the policy that decides nothing by what is learned."""
        selection = first_ready if "sender" in self.agents else self.selection
        return replace(self, selection=selection, group_rule=FIXED)

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another schedule of the same devices."""
        return bool(getattr(self.selection, "depends_on_seed", False))

    @property
    def in_turn(self) -> bool:
        """True if it is one of slotwise's own and devices send in the order in which they get ready.

        Then nothing is decided between two uplinks, and no events are needed (`simulator_of`).
        """
        return False

    @property
    def plans(self) -> bool:
        """True if the delivery may depend on the slots of uplinks."""
        return True

    @property
    def wait(self) -> Delay | None:
        """Rounds that all senders wait for their next model; None if the policy is not one of that kind.

        "auto" are as many as cost nothing.
        """
        return None

    @abstractmethod
    def delivery(self, scenario: Scenario, fleet: Fleet, rounds: int | None) -> Delivery:
        """Bind the policy to a scenario.

        Args:
            scenario: devices and channel.
            fleet: the devices.
            rounds: the number of rounds that will be played at most; None if the deadline decides.
        """

    def for_planned_slots(self) -> Policy:
        """Return the policy to use over a link whose slots and losses are not known in advance."""
        return self


def bound_delivery(policy: Policy, scenario: Scenario, fleet: Fleet, rounds: int | None) -> Delivery:
    """Return `Policy.delivery`, checked: the policy may be the user's.

    Raises:
        UserError: the method has other arguments, or does not return a Delivery.
    """
    try:
        delivery = policy.delivery(scenario, fleet, rounds)
    except TypeError as error:
        # The traceback of a call with wrong arguments ends in this frame; a deeper one is the user's error.
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from inside the method
        raise UserError(f"policy {policy.name}: {error}") from None
    wanted = ("initial", "after", "joining", "turns", "waits_for_all")
    missing = ", ".join(name for name in wanted if not hasattr(delivery, name))
    if missing:
        raise UserError(
            f"policy {policy.name}: delivery returned {describe_value(delivery)}, which has no {missing}"
        )
    return delivery
