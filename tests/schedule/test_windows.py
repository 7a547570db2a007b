"""Windows of coverage: a loop over slots, written from docs/windows.md alone, agrees uplink by uplink."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from naive_windows import DEADLINE, Case, assert_same, drawn_case, naive, played
from random_fleets import lost_rows, uplink_rows

from slotwise import InputError, Scenario, Timeline, simulate
from slotwise.fleet import Fleet, Window, Windows
from slotwise.schedule import (
    Asynchronous,
    FleetLink,
    IntentionalDelay,
    Link,
    Policy,
    Scheduler,
    Simulator,
    Synchronous,
    Transmission,
    scheduler_for,
    simulator_of,
)
from slotwise.schedule.costs import server_usage
from slotwise.schedule.events import Drive
from slotwise.schedule.policy import FixedDelay


def random_case(number: int) -> Case:
    draw = Random(number)
    n = draw.randint(1, 6)
    scenario = Scenario(
        devices=n,
        group_size=draw.randint(1, n),
        compute_slots=3,
        link_slots=draw.randint(1, 3),
        sub_channels=draw.choice([1, 1, 2]),
        deadline=DEADLINE,
    )
    windows, is_open = random_windows(draw, n)
    return drawn_case(draw, scenario, windows, is_open, number)


def random_windows(draw: Random, devices: int) -> tuple[Windows, dict[int, list[bool]]]:
    """Windows that are long enough for any transmission, and the same slot by slot."""
    slots = range(DEADLINE + 50)
    if draw.random() < 0.5:
        period = draw.randint(6, 40)
        length = draw.randint(4, period - 1)
        offsets = [draw.randint(0, 60) for _ in range(devices)]
        is_open = {n: [(t - offset) % period < length for t in slots] for n, offset in enumerate(offsets, 1)}
        return Windows.periodic(period, length, offsets), is_open
    windows = []
    for device in range(1, devices + draw.randint(0, 1)):  # the last may always be in reach
        slot = draw.randint(0, 10)
        for _ in range(draw.randint(1, 9)):
            windows.append(Window(device, slot, slot + draw.randint(4, 20)))
            slot = windows[-1].closes + draw.randint(1, 20)
    windows = windows or [Window(1, 0, DEADLINE)]
    listed = {window.device for window in windows}
    spans = {n: [w for w in windows if w.device == n] for n in range(1, devices + 1)}
    return Windows(tuple(windows)), {
        n: [n not in listed or any(w.opens <= t < w.closes for w in spans[n]) for t in slots] for n in spans
    }


@pytest.mark.parametrize("part", range(8))
def test_windows_are_followed_as_the_loop_over_slots_follows_them(part: int) -> None:
    for number in range(part * 150, part * 150 + 150):
        case = random_case(number)
        assert_same(number, played(case), naive(case))


def test_the_server_sends_in_the_slots_of_broadcasts_and_repetitions() -> None:
    scenario = Scenario(devices=2, group_size=2, compute_slots=2, link_slots=2, deadline=60)
    windows = Windows.periodic(20, 8, (0, 10))
    timeline = simulate(
        scenario, "async", fleet=Fleet(compute_slots=(2, 2), link_slots=(2, 2), windows=windows)
    )
    assert len(timeline.repeats)
    assert server_usage(timeline).sending == 2 * (timeline.rounds + len(timeline.repeats))


def assert_within_windows(timeline: Timeline) -> None:
    windows = timeline.fleet.windows
    assert windows is not None
    sent = [row[1:] for row in uplink_rows(timeline) + lost_rows(timeline)]
    assert all(windows.receives(device, start, end) for device, _, start, end in sent)
    for version in range(1, timeline.models):
        start, end = timeline.broadcast_start[version - 1], timeline.broadcast_end[version - 1]
        assert all(windows.receives(n, int(start), int(end)) for n in timeline.receivers(version).tolist())
    assert all(windows.receives(n, start, end) for n, _, start, end in timeline.repeats.tolist())
    assert timeline.staleness.min(initial=0) >= 0


@pytest.mark.parametrize("number", range(60))
def test_just_in_time_delivery_stays_within_the_windows(number: int) -> None:
    case = random_case(number)
    case.options = {"policy": "idfl"}
    if (timeline := played(case)) is not None:
        assert_within_windows(timeline)


@dataclass(frozen=True)
class Uneven(Link):
    """Every second uplink takes far longer than is planned with."""

    devices: int
    planned_broadcast_slots: int = 1

    @property
    def planned_slots(self) -> tuple[int, ...]:
        return (1,) * self.devices

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        return Transmission(1 + 6 * (slot % 2))

    def broadcast(self, receivers: Any, slot: int) -> int:
        return 1 + slot % 3

    def snr_db(self, slot: int) -> Any:
        return np.zeros(self.devices)


@pytest.mark.parametrize("number", range(30))
def test_over_a_link_of_unknown_slots_an_uplink_is_broken_off_where_its_window_closes(number: int) -> None:
    case = random_case(number)
    fleet = replace(case.fleet, uplink_loss=0.0)
    link = Uneven(fleet.devices)
    try:
        timeline = simulate(case.scenario, "async", fleet=fleet, link=link)
    except InputError:
        return
    assert_within_windows(timeline)
    lengths = [(end - start, start % 2) for *_, start, end in lost_rows(timeline)]
    assert all(odd and length < 7 for length, odd in lengths)


def test_a_timeline_with_windows_is_read_as_it_was_written() -> None:
    timeline = played(random_case(4))
    assert timeline is not None
    assert Timeline.from_json(timeline.to_json()) == timeline
    assert timeline.first(2) == played(random_case(4), rounds=2)


@pytest.mark.parametrize(
    "policy", [Asynchronous(), Synchronous(), IntentionalDelay(), IntentionalDelay(delay=1)]
)
def test_no_faster_simulator_is_used(policy: Policy) -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5, 5), link_slots=(1, 1), windows=Windows.periodic(10, 4, (0, 0)))
    assert simulator_of(scenario, policy, fleet, FleetLink.of(scenario, fleet)) is Simulator.EVENTS


def test_a_restored_scheduler_continues_as_the_first_one() -> None:
    """A copy that is restored in every instant gives the same timeline."""

    class Restored(Scheduler):
        def actions(self, events: Any, slot: int = 0) -> Any:
            self.restore(self.state)
            return super().actions(events, slot)

    for number in range(100):
        case = random_case(number)
        records = []
        for kind in (Scheduler, Restored):
            group, size = case.scenario.group_size, case.scenario.devices
            link = FleetLink.of(case.scenario, case.fleet)
            scheduler = kind(
                group,
                FixedDelay(size, group),
                retransmission=case.fleet.retransmission,
                sub_channels=case.scenario.sub_channels,
                link=link,
                windows=case.fleet.windows,
            )
            records.append(Drive(scheduler, case.fleet, link).play(None, DEADLINE))
        assert records[0] == records[1], number


def test_devices_that_are_always_in_reach_give_the_schedule_without_windows() -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5, 4, 3, 9), link_slots=(1, 2, 1, 1))
    always = replace(fleet, windows=Windows((Window(1, 0, 1000),)))
    for options in ({"policy": "sync"}, {"policy": "async"}, {"policy": "idfl", "delay": 1}):
        plain, windowed = (simulate(scenario, fleet=devices, **options) for devices in (fleet, always))
        assert uplink_rows(plain) == uplink_rows(windowed)


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (lambda: Windows(()), "at least one"),
        (lambda: Windows((Window(1, 4, 4),)), "closes is"),
        (lambda: Windows(((1, 2),)), "device, opens and closes"),
        (lambda: Windows((Window(1, 0, 4), Window(1, 4, 8))), "a slot in between"),
        (lambda: Windows((Window(1, 0, 9),), 9), "a slot in between"),
        (lambda: Windows((Window(1, 12, 14),), 9), "slots 0 to 8"),
        (lambda: Windows.periodic(10, 10, (0,)), "window_length = 10"),
    ],
)
def test_windows_that_cannot_be_are_refused(windows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        windows()


def test_windows_too_short_for_an_uplink_or_a_broadcast_are_refused() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=5, link_slots=3, deadline=80)
    windows = Windows.periodic(10, 4, (0, 0))
    with pytest.raises(
        InputError, match="window_length = 4: must be at least 5, the slots of an uplink of device 2"
    ):
        simulate(scenario, "async", fleet=Fleet(compute_slots=(5, 5), link_slots=(1, 5), windows=windows))
    longer = replace(scenario, link_slots=6)
    with pytest.raises(InputError, match="window_length = 4: must be at least 6, the slots of a broadcast"):
        simulate(longer, "async", fleet=Fleet(compute_slots=(5, 5), link_slots=(1, 2), windows=windows))


def test_a_network_has_no_windows() -> None:
    scenario = Scenario(devices=1, group_size=1, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5,), link_slots=(1,), windows=Windows.periodic(10, 4, (0,)))
    with pytest.raises(InputError, match="windows = given: must be omitted"):
        scheduler_for(scenario, "async", fleet=fleet)
