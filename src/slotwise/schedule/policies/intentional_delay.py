"""Intentional delay (Algorithm 2): devices wait for a fresher model as long as the channel loses nothing.

For equal devices all wait the same number of rounds (`FixedDelay`). For unequal devices, or another selection
than first-ready, delivery is just in time, unless a fixed delay is fresher at no cost (`FixedDelaySearch`):

**The rule.** Take the asynchronous schedule of the fleet (delay 0). Leave its channel as it is: the same
uplinks in the same slots. Only let every device receive the last broadcast that still lets it finish
computing before the round in which it sends begins; if there is none, the one it receives anyway.

**Why it costs nothing.** No uplink moves, so no round ends later than without delay. Each update is made from
the same model or a later one, so no update gets older.

**Why it is Proposition 1 for equal devices.** There, a round begins every r(S+1) slots, so the last broadcast
in time is the one of ceil(tau_comp / (r(S+1))) = d* rounds ago, for all S devices of the round.

It needs to know the schedule in advance, so it is exact where durations are known. Under jitter, losses and
absences a plan is made for the fleet without them and followed in rounds instead of slots (`Planned`): a
heuristic. There, and over links, fixed delays are not tried: they leave no slack.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from slotwise.errors import InputError
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario, check_fields
from slotwise.schedule.equal_devices import fixed_delay_timeline, round_ends
from slotwise.schedule.events import event_timeline
from slotwise.schedule.one_at_a_time import Simulation, applies, one_at_a_time
from slotwise.schedule.policies.asynchronous import FixedDelay
from slotwise.schedule.policies.fixed_delay_search import FixedDelaySearch, shortest_round
from slotwise.schedule.policy import Booking, Delivery, Policy
from slotwise.schedule.selections.first_ready_selection import first_ready
from slotwise.schedule.timeline import NEVER, NONE, Timeline, Trainings

MOST_GROUPS = 100_000
MOST_ROUNDS = 20_000_000
MOST_COMPARED = 3_000_000  # uplinks by the deadline, up to which fixed delays are tried
Delay = int | Literal["auto"]


@dataclass(frozen=True, kw_only=True)
class IntentionalDelay(Policy):
    """Intentional delay, fixed or just in time.

    A delay is in rounds. "auto" is the largest that costs nothing. If devices are unequal, the group size
    changes or the selection is not first-ready, it is just in time for each device, or one fixed delay where
    that is fresher and all durations are known.

    Attributes:
        delay: Intentional delay of idfl in rounds; auto is the largest that costs nothing.
    """

    name: ClassVar[str] = "idfl"
    delay: Delay = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Delivery:
        """Return a fixed delay, or the plan of just-in-time delivery."""
        delay = self._fixed_delay(scenario, fleet)
        if delay is None:
            devices = (fleet or Fleet.equal(scenario)).without_faults()
            delay, shown, plain = self._compare(scenario, fleet, devices, rounds)
        if delay is not None:
            return FixedDelay(scenario.devices, scenario.group_size, delay)
        # With all rounds of the plan, so that the last senders of those shown have a next model in it.
        return Planned.of(just_in_time(plain, devices.compute_slots, plain.rounds), shown)

    def fast_path(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Timeline | None:
        """Return the timeline of devices that send in turn, or that of a faultless fleet just in time."""
        delay = self._fixed_delay(scenario, fleet)
        if delay is not None:
            if fleet is not None:
                return one_at_a_time(scenario, self, fleet, rounds)
            equal = self.selection is first_ready and not scenario.group_size_changes
            return fixed_delay_timeline(scenario, self.name, delay, rounds) if equal else None
        devices = fleet or Fleet.equal(scenario)
        if not devices.faultless:
            return one_at_a_time(scenario, self, fleet, rounds)
        delay, shown, plain = self._compare(scenario, fleet, devices, rounds)
        if delay is not None:
            fixed = replace(self, delay=delay)
            in_turn = one_at_a_time(scenario, fixed, fleet, rounds)
            return event_timeline(scenario, fixed, fleet, rounds) if in_turn is None else in_turn
        # Without faults the plan is what happens, so nothing has to be played.
        planned = just_in_time(plain, devices.compute_slots, shown)
        own = None if devices.is_equal_to(scenario) else devices
        return replace(planned, scenario=scenario, schedule=self.name, fleet=own)

    def for_planned_slots(self) -> Policy:
        """Return just-in-time delivery alone: it leaves some slack, which durations by chance need."""
        return _JustInTime(selection=self.selection, delay=self.delay)

    def _fixed_delay(self, scenario: Scenario, fleet: Fleet | None) -> int | None:
        """Return the delay of all devices in rounds; None if delivery is just in time."""
        if self.delay != "auto":
            return scenario.checked_delay(self.delay)
        equal = fleet is None and self.selection is first_ready and not scenario.group_size_changes
        return automatic_delay(scenario) if equal else None

    def _compare(
        self, scenario: Scenario, fleet: Fleet | None, devices: Fleet, rounds: int | None
    ) -> tuple[int | None, int, Timeline]:
        """Compare just-in-time delivery with fixed delays, for devices without faults.

        Returns:
            The fixed delay if one is better, the number of rounds without delay, and a timeline without
            delay until all their receivers have sent.
        """
        if fleet is None or not self._compares(scenario, fleet):
            return None, *self._without_delay(scenario, devices, rounds)
        # A deadline decides alone: the first rounds of a run must not depend on how many of them are shown.
        horizon = rounds if scenario.deadline is None else None
        shown, plain = self._without_delay(scenario, devices, horizon)
        planned = just_in_time(plain, devices.compute_slots, shown)
        search = FixedDelaySearch(scenario, fleet, horizon, planned, lambda delay: replace(self, delay=delay))
        return search.best(), min(shown, rounds or shown), plain

    def _compares(self, scenario: Scenario, fleet: Fleet) -> bool:
        """Return whether fixed delays are tried: all durations are known, and they are not too many."""
        uplinks = (scenario.deadline or 0) // shortest_round(scenario, fleet) * max(scenario.group_sizes)
        return fleet.faultless and uplinks <= MOST_COMPARED

    def _without_delay(self, scenario: Scenario, fleet: Fleet, rounds: int | None) -> tuple[int, Timeline]:
        """Return the number of rounds without delay, and a timeline until all their receivers have sent.

        The slowest device is ready before so many of the shortest possible rounds are over; fewer than N
        others are then before it in the queue, and G rounds serve them all.
        """
        scenario.check_horizon(rounds)
        plain, endless = replace(self, delay=0), replace(scenario, deadline=None)
        fewest, shortest = min(scenario.group_sizes), shortest_round(scenario, fleet)
        more = max(fleet.compute_slots) // shortest + -(-scenario.devices // fewest) + 2
        if more * fewest > MOST_ROUNDS:
            allowed = f"fewer: just-in-time delivery would plan {more:,} rounds, until that device has sent"
            raise InputError("compute_slots", max(fleet.compute_slots), allowed)
        if not applies(scenario, plain, fleet):
            # Twice, because only the first tells how many rounds the second must have.
            shown = event_timeline(scenario, plain, fleet, rounds).rounds
            return shown, event_timeline(endless, plain, fleet, shown + more)
        shown, delivery = 0, FixedDelay(scenario.devices, scenario.group_size)
        simulation = Simulation(endless, delivery, fleet)
        # One simulation does both: it counts the rounds that fit, and then plays ``more`` without a deadline.
        for done, end in enumerate(simulation.rounds(), start=1):
            if done <= (rounds or done) and end <= (scenario.deadline or end):
                shown = done
            elif done == shown + more:
                break
        return shown, Timeline.of(endless, self.name, 0, simulation.record, fleet)


class _JustInTime(IntentionalDelay):
    """Intentional delay whose "auto" is just-in-time delivery, however good a fixed delay is."""

    def _compares(self, scenario: Scenario, fleet: Fleet) -> bool:  # noqa: ARG002
        return False


def automatic_delay(scenario: Scenario, free: int = 0) -> int:
    """Return the largest delay that costs no slot; if S does not divide N, no *round* within the deadline.

    A larger delay never ends a round earlier (each device then waits for a later model), so the delays that
    cost nothing come first and the last of them is found by bisection. If S divides N, the answer is
    Proposition 1's, which `slotwise.theory.free_delay` gives in closed form; here it is searched for.
    ``free`` is a delay already known to cost no slot: the search starts there.
    """
    scenario.refuse_changes()
    refuse_too_many_groups(scenario)
    largest = scenario.largest_delay
    # The number of delays before the first that costs something, since False sorts before True.
    free += bisect_left(range(free + 1, largest + 1), True, key=partial(_costs_a_slot, scenario))
    if scenario.divides or scenario.deadline is None:
        return free
    costs_a_round = partial(_costs_a_round, scenario, completed_rounds(scenario))
    return free + bisect_left(range(free + 1, largest + 1), True, key=costs_a_round)


def refuse_too_many_groups(scenario: Scenario) -> None:
    """Raise an InputError if a search for the free delay would take minutes: it plays the first 2G rounds."""
    if scenario.groups > MOST_GROUPS:
        smallest = -(-scenario.devices // MOST_GROUPS)
        allowed = f"at least {smallest:,} to find the free delay: {MOST_GROUPS:,} groups are the most"
        raise InputError("group_size", scenario.group_size, allowed)


def completed_rounds(scenario: Scenario) -> int:
    """Return the number of asynchronous rounds that end by the deadline.

    If the channel never waits after the first training, they are counted by division. If it ever waits, that
    shows in the first 2G rounds: by then every device has sent a second time.
    """
    scenario.refuse_changes()
    first, each, deadline = scenario.compute_slots, scenario.communication_slots, scenario.deadline or 0
    beginning = round_ends(replace(scenario, deadline=None), 0, 2 * scenario.groups)
    if all(end == first + k * each for k, end in enumerate(beginning, start=1)):
        return max(0, (deadline - first) // each)
    if deadline // each > MOST_ROUNDS:
        allowed = (
            f"shorter, or group_size a divisor of {scenario.devices}: {MOST_ROUNDS:,} rounds are the most"
        )
        raise InputError("deadline", deadline, allowed)
    return sum(1 for _ in round_ends(scenario))


def _costs_a_slot(scenario: Scenario, delay: int) -> bool:
    """Return whether a round ends later than without delay; if any does, one of the first 2G does."""
    unlimited = replace(scenario, deadline=None)
    beginnings = (round_ends(unlimited, rounds, 2 * scenario.groups) for rounds in (delay, 0))
    return any(delayed != plain for delayed, plain in zip(*beginnings, strict=True))


def _costs_a_round(scenario: Scenario, rounds: int, delay: int) -> bool:
    """Return whether fewer than ``rounds`` rounds end by the deadline.

    Decided as soon as the rounds that are left, back to back, would not fit any more: a delay that costs
    slots costs some in every cycle, so that is soon even if the deadline is far.
    """
    deadline, each = scenario.deadline or 0, scenario.communication_slots
    ends = enumerate(round_ends(replace(scenario, deadline=None), delay, rounds), start=1)
    return any(end + (rounds - k) * each > deadline for k, end in ends)


def just_in_time(plain: Timeline, compute_slots: Sequence[int], rounds: int) -> Timeline:
    """Return the first ``rounds`` rounds of an asynchronous timeline, with models received just in time.

    ``plain`` should go on until whoever received one of the first ``rounds`` models has sent: only an uplink
    tells when a model is needed. A device that never sends receives the model it would receive anyway.
    """
    # Round k begins when round k−1 ends. A sender in it must have its model tau_comp slots before.
    # The broadcasts that have ended by then are w_1 to w_in_time; 0 means that there is only w_0.
    slots = np.asarray(compute_slots, dtype=np.int64)
    begins = np.concatenate([np.zeros(1, dtype=np.int64), plain.broadcast_end[:-1]])
    needed = begins[plain.round] - slots[plain.device - 1]
    in_time = np.searchsorted(plain.broadcast_end, needed, side="right")
    # A device that gets ready only during the round keeps its model: a later one would delay it.
    version = np.maximum(plain.version, in_time.astype(np.int32))
    # Whoever sends an update made from a model receives it, ascending; others what they receive anyway.
    received = Trainings.of(plain)
    unsent = received.uplink == NONE
    device = np.concatenate([plain.device, received.device[unsent].astype(np.int32)])
    model = np.concatenate([version, received.version[unsent].astype(np.int32)])
    # Models after w_rounds are needed by uplinks that are not part of the result.
    device, model = device[model <= rounds], model[model <= rounds]
    order = np.lexsort((device, model))
    return replace(
        replace(plain, version=version).first(rounds),
        delay=None,
        receiver=device[order],
        receiver_offsets=np.searchsorted(model[order], np.arange(rounds + 2)),
    )


@dataclass(frozen=True)
class Planned(Delivery):
    """A delivery that follows a plan as far as faults permit.

    A sender waits as many rounds for its next model as it does in the plan at that time. For every S devices
    that are absent the queue for the channel is a round shorter, and so is the wait. Devices that are ready
    send in the planned order; if the plan is not met, in the order in which they got ready.
    """

    devices: int
    group_size: int
    received: Mapping[int, Sequence[int]]  # the models each device receives in the plan
    sent: Mapping[int, Sequence[int]]  # the rounds in which it sends
    turns: Mapping[tuple[int, int], int]  # the slot of the uplink, for (device, version)

    @classmethod
    def of(cls, plan: Timeline, rounds: int = -1) -> Planned:
        """Follow a timeline of the same devices.

        The selection may have left devices out for good. If they received one of the first ``rounds`` models
        and never send in the plan, they come last, not in the order in which they got ready.
        """
        received: defaultdict[int, list[int]] = defaultdict(list)
        for version in range(plan.models):
            for device in plan.receivers(version).tolist():
                received[device].append(version)
        sent: defaultdict[int, list[int]] = defaultdict(list)
        early = [(n, version) for n in received for version in received[n] if version <= rounds]
        turns = dict.fromkeys(early, int(NEVER))  # those that send get their slot below
        columns = (plan.round, plan.device, plan.version, plan.start)
        for k, device, version, start in zip(*(column.tolist() for column in columns), strict=True):
            sent[device].append(k)
            turns[device, version] = start
        return cls(plan.scenario.devices, plan.scenario.group_size, dict(received), dict(sent), turns)

    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        """Book each device for its first model in the plan."""
        saved = self._rounds_saved(absent)
        for device in range(1, self.devices + 1):
            yield max(0, self.received.get(device, (0,))[0] - saved), [device]

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:
        """Book each sender for a model as many rounds later as in the plan."""
        saved = self._rounds_saved(absent)
        for device in senders:
            # The wait is that between the planned uplink due by now and the next model, as far as known.
            sent, received = self.sent.get(device, ()), self.received.get(device, ())
            place = min(bisect_right(sent, round_number), len(received) - 1) - 1
            # The senders of round k get w_{k+1} without a wait.
            wait = received[place + 1] - sent[place] - 1 if place >= 0 else 0
            yield round_number + 1 + max(0, wait - saved), [device]

    def resized(self, group_size: int) -> Planned:
        """Return the same plan; absences shorten the wait by rounds of this size."""
        return replace(self, group_size=group_size)

    def _rounds_saved(self, absent: Set[int]) -> int:
        # The difference of ceil(N/S) for all devices and for those that are present.
        present = self.devices - len(absent)
        return -(-self.devices // self.group_size) - -(-present // self.group_size)
