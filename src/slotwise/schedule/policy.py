"""Policy and Delivery: who receives which model, and who sends next.

A `Policy` is a frozen value that knows nothing about a scenario. `Policy.delivery` binds it to one: the
`Delivery` it returns says who receives which model. The selection says who sends next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from slotwise.errors import UserError
from slotwise.fleet import Fleet
from slotwise.options import loaded, resolved
from slotwise.scenario import Scenario
from slotwise.schedule.selection import Selection
from slotwise.schedule.selections import SELECTION, RandomSelection, SelectionChoice, first_ready
from slotwise.schedule.timeline import Timeline

Booking = tuple[int, Sequence[int]]  # (model version, devices that receive it)


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


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A schedule: who receives which model, and who sends next.

    Attributes:
        selection: Who sends next: first-ready, round-robin, random, best-channel, proportional-fair,
            largest-age, shortest-uplink, or your own module:function.
    """

    name: ClassVar[str]  # the name that a Timeline carries
    selection: SelectionChoice = first_ready

    def __post_init__(self) -> None:
        if isinstance(self.selection, str):
            object.__setattr__(self, "selection", resolved(SELECTION, self.selection))

    def ready(self, seed: int | None = None) -> Self:
        """Return the policy with functions of the user's imported and, if one is given, another seed."""
        selection = loaded(self.selection)
        if seed is not None and isinstance(selection, RandomSelection):
            selection = RandomSelection(seed)
        return self if selection is self.selection else replace(self, selection=selection)

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another schedule of the same devices."""
        return bool(getattr(self.selection, "depends_on_seed", False))

    @abstractmethod
    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Delivery:
        """Bind the policy to a scenario.

        Args:
            scenario: devices and channel.
            fleet: the devices; None if all are equal and without faults.
            rounds: the number of rounds that will be played at most; None if the deadline decides.
        """

    def for_planned_slots(self) -> Policy:
        """Return the policy to use over a link whose slots and losses are not known in advance."""
        return self

    def fast_path(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Timeline | None:  # noqa: ARG002
        """Return exactly what a Scheduler would make of it, without driving one; None if it cannot."""
        return None


def bound_delivery(policy: Policy, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Delivery:
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
        kind = type(delivery).__name__
        raise UserError(f"policy {policy.name}: delivery returned a {kind}, which has no {missing}")
    return delivery
