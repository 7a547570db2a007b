"""Three ways to one schedule: the short cut, the Scheduler event by event, and a dumb loop over slots."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from random_fleets import schedules

from slotwise import Scenario, Timeline, simulate
from slotwise.fleet import Fleet
from slotwise.schedule import Scheduler
from slotwise.schedule.events import Drive
from slotwise.schedule.link import FleetLink
from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import FixedDelay


@dataclass
class Device:
    """What one device is up to: computing while ``left`` > 0, then ready since slot ``finished``."""

    version: int = 0
    left: int = 0
    finished: int | None = None


@dataclass
class SlotBySlot:
    """Algorithms 1 and 2 (and synchronous FL), read line by line, one slot after the other."""

    devices: int
    group_size: int
    link_slots: int
    compute_slots: Callable[[int], int]
    delay: int | None  # None: synchronous, with these participants
    participants: Callable[[int], list[int]] = lambda _: []
    uplinks: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    broadcasts: list[tuple[int, int]] = field(default_factory=list)
    receivers: list[list[int]] = field(default_factory=list)

    def run(self, rounds: int) -> "SlotBySlot":
        state = {n: Device() for n in range(1, self.devices + 1)}
        senders = self.initial_sets()
        self.start_computing(state, 0, self.receivers_of(0, senders))
        sending: int | None = None
        busy, slot, k = 0, 0, 0
        while k < rounds:
            if not busy:  # the channel is free at the start of this slot
                sent = senders.setdefault(k, [])
                if len(sent) == self.group_size:
                    sending, busy = None, self.link_slots
                elif (first := self.first_ready(state, sent)) is not None:
                    sending, busy = first, self.link_slots
                    self.uplinks.append((k, first, state[first].version, slot, slot + busy))
                    state[first].finished = None
            slot += 1  # the slot passes
            for device in state.values():
                if device.left:
                    device.left -= 1
                    device.finished = None if device.left else slot
            if busy:
                busy -= 1
                if not busy and sending is not None:
                    senders[k].append(sending)
                elif not busy:
                    self.broadcasts.append((slot - self.link_slots, slot))
                    k += 1
                    self.start_computing(state, k, self.receivers_of(k, senders))
        return self

    def initial_sets(self) -> dict[int, list[int]]:
        """Line 1 of Algorithm 2: S_{−alpha−1} = 1..(G−alpha)S, then a group of S for every 1 ≤ k ≤ alpha."""
        if self.delay is None:
            return {}
        size, groups, alpha = self.group_size, -(-self.devices // self.group_size), self.delay
        everyone = range(1, self.devices + 1)
        sets = {-alpha - 1: [n for n in everyone if n <= (groups - alpha) * size]}
        for k in range(1, alpha + 1):
            first, last = (k + groups - alpha - 1) * size + 1, (k + groups - alpha) * size
            sets[k - alpha - 1] = [n for n in everyone if first <= n <= last]
        return sets

    def receivers_of(self, version: int, senders: dict[int, list[int]]) -> list[int]:
        """Line 13: w_{k+1} goes to S_{k−alpha}."""
        if self.delay is None:
            return self.participants(version)
        return senders[version - 1 - self.delay]

    def start_computing(self, state: dict[int, Device], version: int, receivers: list[int]) -> None:
        self.receivers.append(sorted(receivers))
        for n in receivers:
            state[n] = Device(version, self.compute_slots(n))

    def first_ready(self, state: dict[int, Device], sent: list[int]) -> int | None:
        """Who finished first, ties to the lower index; in synchronous FL nobody before all have finished."""
        ready = [(d.finished, n) for n, d in state.items() if d.finished is not None]
        if not ready or (self.delay is None and len(ready) + len(sent) < self.group_size):
            return None
        return min(ready)[1]


def rows(timeline: Timeline) -> list[tuple[int, ...]]:
    columns = (timeline.round, timeline.device, timeline.version, timeline.start, timeline.end)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def scenarios(draw: st.DrawFn, devices: int = 12, compute: int = 25) -> Scenario:
    count = draw(st.integers(1, devices))
    return Scenario(
        devices=count,
        group_size=draw(st.integers(1, count)),
        compute_slots=draw(st.integers(1, compute)),
        link_slots=draw(st.integers(1, 3)),
    )


@given(scenario=scenarios(), rounds=st.integers(1, 12), data=st.data())
def test_both_ways_are_the_dumb_loop_over_slots(scenario: Scenario, rounds: int, data: st.DataObject) -> None:
    options = data.draw(schedules(scenario))
    policy = Participants(
        scenario.devices,
        scenario.group_size,
        options.get("participation", "round-robin"),
        options.get("seed", 0),
    )
    naive = SlotBySlot(
        scenario.devices,
        scenario.group_size,
        scenario.link_slots,
        compute_slots=lambda _: scenario.compute_slots,
        delay=None if options["policy"] == "sync" else options.get("delay", 0),
        participants=lambda k: list(policy.participants(k)),
    ).run(rounds)
    for event_by_event in (False, True):
        timeline = simulate(scenario, **options, rounds=rounds, event_by_event=event_by_event)
        slots = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
        assert rows(timeline) == naive.uplinks
        assert list(slots) == naive.broadcasts
        assert [timeline.receivers(v).tolist() for v in range(rounds + 1)] == naive.receivers


@given(scenario=scenarios(devices=200, compute=500), rounds=st.integers(1, 40), data=st.data())
def test_the_short_cut_is_the_scheduler_event_by_event(
    scenario: Scenario, rounds: int, data: st.DataObject
) -> None:
    options = data.draw(schedules(scenario))
    short_cut = simulate(scenario, **options, rounds=rounds)
    assert short_cut == simulate(scenario, **options, rounds=rounds, event_by_event=True)


@given(scenario=scenarios(), slack=st.integers(0, 200), data=st.data())
def test_both_ways_stop_at_the_same_deadline(scenario: Scenario, slack: int, data: st.DataObject) -> None:
    first = scenario.compute_slots + scenario.communication_slots
    limited = Scenario(**scenario.as_dict() | {"deadline": first + slack})
    options = data.draw(schedules(limited))
    short_cut = simulate(limited, **options)
    assert short_cut == simulate(limited, **options, event_by_event=True)
    assert first <= short_cut.last_slot <= first + slack


@given(scenario=scenarios(), rounds=st.integers(1, 12), data=st.data())
def test_unequal_devices_are_driven_as_the_dumb_loop_drives_them(
    scenario: Scenario, rounds: int, data: st.DataObject
) -> None:
    speeds = data.draw(st.lists(st.integers(1, 25), min_size=scenario.devices, max_size=scenario.devices))
    delay = data.draw(st.integers(0, scenario.largest_delay))
    naive = SlotBySlot(
        scenario.devices,
        scenario.group_size,
        scenario.link_slots,
        compute_slots=lambda n: speeds[n - 1],
        delay=delay,
    ).run(rounds)
    scheduler = Scheduler(scenario.group_size, FixedDelay(scenario.devices, scenario.group_size, delay))
    fleet = Fleet(compute_slots=tuple(speeds), link_slots=(scenario.link_slots,) * scenario.devices)
    record = Drive(scheduler, fleet, FleetLink(fleet, scenario.link_slots)).play(rounds, None)
    assert record.uplinks == naive.uplinks
    assert record.broadcasts == naive.broadcasts
    assert [list(group) for group in record.receivers] == naive.receivers
