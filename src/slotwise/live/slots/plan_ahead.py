"""SlotPlan: drives the Scheduler slot by slot; PlanAhead: the same Scheduler some grants ahead.

Both make the events that follow from an action as the simulator does (`schedule.events`). The plan ahead
assumes that every uplink arrives; when one does not, it is made again from the state of the plan.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from slotwise.fleet import Fleet, Retransmission
from slotwise.live.slots.frames import AheadGrant
from slotwise.scenario import Scenario
from slotwise.schedule import (
    Agenda,
    Deliver,
    Delivered,
    Event,
    Grant,
    Link,
    Policy,
    Ready,
    Scheduler,
    SchedulerState,
    Sent,
)
from slotwise.schedule.events import planned_delivery


class Uplink(NamedTuple):
    """A granted uplink; ``fades`` if the link loses it, which only the medium knows."""

    round: int
    grant: AheadGrant
    fades: bool


class Broadcast(NamedTuple):
    """The broadcast of a model in slots [start, end)."""

    version: int
    receivers: Sequence[int]
    start: int
    end: int


def scheduler_maker(
    scenario: Scenario, policy: Policy, fleet: Fleet, link: Link, retransmission: Retransmission
) -> Callable[[], Scheduler]:
    """Return a function that makes Schedulers of a case; they share what takes long to compute."""
    delivery = planned_delivery(policy, scenario, fleet, link, None)  # without state

    def make() -> Scheduler:
        return Scheduler(
            scenario.group_size,
            delivery,
            selection=policy.selection,
            retransmission=retransmission,
            changes=scenario.group_size_changes,
            link=link,
        )

    return make


class SlotPlan:
    """A Scheduler with its agenda, from slot to slot.

    Attributes:
        agenda: events of the coming slots; an uplink is expected to arrive.
        delivered: updates of each device that have arrived.
    """

    def __init__(self, make_scheduler: Callable[[], Scheduler], fleet: Fleet, link: Link) -> None:
        self._make, self._fleet, self._link = make_scheduler, fleet, link
        self._scheduler, self.agenda = make_scheduler(), Agenda()
        self.delivered: Counter[int] = Counter()
        self._trainings: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()

    @classmethod
    def of(cls, scenario: Scenario, policy: Policy, fleet: Fleet, link: Link) -> SlotPlan:
        """Return the plan of a case, before its first slot."""
        make = scheduler_maker(scenario, policy, fleet, link, fleet.retransmission)
        return cls(make, fleet, link)

    @classmethod
    def at(
        cls,
        make_scheduler: Callable[[], Scheduler],
        fleet: Fleet,
        link: Link,
        state: SchedulerState,
        agenda: Agenda,
        delivered: Mapping[int, int],
    ) -> SlotPlan:
        """Return a plan in the middle of a run, independent of what it is made from."""
        plan = cls(make_scheduler, fleet, link)
        plan._scheduler.restore(state)
        for slot, event in agenda.entries():
            plan.agenda.add(slot, event)
        plan.delivered = Counter(delivered)
        return plan

    def copy(self) -> SlotPlan:
        """Return an independent plan in the same state."""
        state = self._scheduler.state
        other = SlotPlan.at(self._make, self._fleet, self._link, state, self.agenda, self.delivered)
        other._trainings, other._attempts = Counter(self._trainings), Counter(self._attempts)
        return other

    def start(self) -> Broadcast:
        """Hand out w_0, which costs no slots."""
        first = self._scheduler.start()
        self._hand_out(first, 0)
        return Broadcast(first.version, first.receivers, 0, 0)

    def step(self, events: Iterable[Event], slot: int) -> Uplink | Broadcast | None:
        """Tell the Scheduler what has happened; return what the channel does from ``slot`` on."""
        happened = list(events)
        self.delivered.update(event.device for event in happened if isinstance(event, Sent))
        action = self._scheduler.step(happened, slot)
        if isinstance(action, Grant):
            return self._book(action, slot)
        if isinstance(action, Deliver):
            end = slot + self._link.broadcast(action.receivers, slot)
            self._hand_out(action, end)
            return Broadcast(action.version, action.receivers, slot, end)
        return None

    def _book(self, action: Grant, slot: int) -> Uplink:
        device, round_number, version = action
        attempt = self._attempts[device]
        self._attempts[device] += 1
        slots, fades, _ = self._link.uplink(device, slot, attempt)
        self.agenda.add(slot + slots, Sent(device))
        return Uplink(round_number, AheadGrant(slot, slots, device, version, self.delivered[device]), fades)

    def _hand_out(self, delivery: Deliver, slot: int) -> None:
        self.agenda.add(slot, Delivered(delivery.version))
        for device in delivery.receivers:
            training = self._trainings[device]
            self._trainings[device] += 1
            ready = slot + self._fleet.slots_of_training(device, training, slot)
            self.agenda.add(ready, Ready(device, ready, delivery.version))


class PlanAhead:
    """The coming grants of a plan, as far as nothing is lost.

    ``plan`` returns a copy of the plan as it is now, and ``is_over`` says of a slot and the version that is
    complete in it (0: any) whether the run ends before.
    """

    def __init__(self, plan: Callable[[], SlotPlan], is_over: Callable[[int, int], bool]) -> None:
        self._plan, self._is_over = plan, is_over
        self._ahead, self._over = plan(), False
        self._grants: deque[AheadGrant] = deque()

    def expect(self, grant: AheadGrant) -> bool:
        """Remove the next grant; False, after planning again, if another was foreseen."""
        foreseen = self.next(1)
        if foreseen == [grant]:
            self._grants.popleft()
            return True
        self.renew()
        return False

    def renew(self) -> None:
        """Plan again from the state of the plan."""
        self._ahead, self._over = self._plan(), False
        self._grants.clear()

    def next(self, count: int) -> list[AheadGrant]:
        """Return the next grants; fewer if the run ends before."""
        agenda = self._ahead.agenda
        while len(self._grants) < count and not self._over:
            if agenda.next_slot is None or self._is_over(agenda.next_slot, 0):
                self._over = True
                break
            slot, events = agenda.pop()
            action = self._ahead.step(events, slot)
            if isinstance(action, Uplink):
                self._grants.append(action.grant)
            elif isinstance(action, Broadcast):
                self._over = self._is_over(action.end, action.version)  # it ends without this round
        return [*self._grants][:count]
