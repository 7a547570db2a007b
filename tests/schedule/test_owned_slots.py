"""Slots that devices own: a loop over slots, written from docs/windows.md alone, agrees uplink by uplink."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from naive_windows import DEADLINE, Case, Naive, assert_same, drawn_case, naive, played
from random_fleets import uplink_rows

from slotwise import InputError, Scenario, Setting, Timeline, simulate
from slotwise.fleet import Fleet, OwnedSlot, Slotframe, Window, Windows
from slotwise.schedule import Link, Transmission
from slotwise.schedule.costs import server_usage, usage, usage_until


class OwnedSlotRules(Naive):
    """The rules for owned slots, one slot after the other."""

    def can_send(self, device: int, slot: int) -> bool:
        return self.case.open[device][slot]

    def can_receive(self, device: int, slot: int) -> bool:
        return True

    def sends_in(self, device: int, slot: int) -> bool:
        return self.case.open[device][slot]

    def end_of_uplink(self, device: int, slot: int) -> int:
        left = self.case.fleet.link_slots[device - 1]
        while left:
            left -= self.case.open[device][slot]
            slot += 1
        return slot

    def has_windows(self, n: int) -> bool:
        return True

    @property
    def at_once(self) -> int:
        return self.case.scenario.devices


def random_frame(draw: Random, devices: int, sub_channels: int) -> Slotframe:
    """Every device owns a slot, some own more, and some slots belong to nobody."""
    slots = draw.randint(-(-devices // sub_channels), 12)
    free = [slot for slot in range(slots) for _ in range(sub_channels)]
    draw.shuffle(free)
    wanted = [*range(1, devices + 1), *(draw.randint(1, devices) for _ in range(draw.randint(0, 8)))]
    owned = {OwnedSlot(slot, device) for device, slot in zip(wanted, free, strict=False)}
    return Slotframe(slots, tuple(owned))


def random_case(number: int) -> Case:
    draw = Random(number)
    n, sub_channels = draw.randint(1, 6), draw.choice([1, 1, 2])
    scenario = Scenario(
        devices=n,
        group_size=draw.randint(1, n),
        compute_slots=3,
        link_slots=draw.randint(1, 3),
        sub_channels=sub_channels,
        deadline=DEADLINE,
    )
    frame = random_frame(draw, n, sub_channels)
    slots = range(DEADLINE + 200)
    owned = {
        device: [OwnedSlot(t % frame.frame_slots, device) in frame.owned_slots for t in slots]
        for device in range(1, n + 1)
    }
    return drawn_case(draw, scenario, frame, owned, number)


@pytest.mark.parametrize("part", range(8))
def test_owned_slots_are_followed_as_the_loop_over_slots_follows_them(part: int) -> None:
    for number in range(part * 250, part * 250 + 250):
        case = random_case(number)
        assert_same(number, played(case), naive(case, OwnedSlotRules))


@pytest.mark.parametrize("number", range(100))
def test_no_slot_carries_more_uplinks_than_there_are_sub_channels(number: int) -> None:
    case = random_case(number)
    timeline = played(case)
    if timeline is None:
        return
    frame = timeline.fleet.windows
    assert frame is not None
    device = np.concatenate([timeline.device, timeline.lost[:, 1]])
    start = np.concatenate([timeline.start, timeline.lost[:, 3]])
    sender, slot, _ = frame.on_air(device, start, np.concatenate([timeline.end, timeline.lost[:, 4]]))
    assert all(case.open[n][t] for n, t in zip(sender.tolist(), slot.tolist(), strict=True))
    carried = np.bincount(slot)
    assert carried.max() <= case.scenario.sub_channels
    assert server_usage(timeline).receiving == np.count_nonzero(carried)
    assert usage_until(timeline, [timeline.last_slot]).sending[0] == usage(timeline).sending.sum()


@pytest.mark.parametrize("number", range(200))
def test_just_in_time_delivery_moves_no_uplink_and_makes_no_update_older(number: int) -> None:
    case = random_case(number)
    case.fleet = replace(case.fleet, jitter=0.0, uplink_loss=0.0)
    case.options = {"policy": "idfl"}
    planned, plain = played(case), played(replace(case, options={"policy": "async"}))
    assert (planned is None) == (plain is None)
    if planned is None or plain is None:
        return
    assert [row[:2] + row[3:] for row in uplink_rows(planned)] == [
        row[:2] + row[3:] for row in uplink_rows(plain)
    ]
    assert (planned.staleness <= plain.staleness).all()
    ready = planned.received_at(planned.version) + np.array(case.fleet.compute_slots)[planned.device - 1]
    assert (ready <= planned.start).all()


def test_a_plan_under_losses_keeps_to_the_owned_slots() -> None:
    for number in range(60):
        case = random_case(number)
        case.fleet = replace(case.fleet, jitter=0.5, uplink_loss=0.3)
        case.options = {"policy": "idfl"}
        timeline = played(case)
        if timeline is not None:
            rows = zip(timeline.device.tolist(), timeline.start.tolist(), timeline.end.tolist(), strict=True)
            assert all(case.open[n][start] and case.open[n][end - 1] for n, start, end in rows)


def test_devices_that_own_all_slots_of_a_channel_send_as_without_a_frame() -> None:
    scenario = Scenario(devices=1, group_size=1, compute_slots=5, link_slots=2, deadline=80)
    fleet = Fleet(compute_slots=(5,), link_slots=(2,))
    framed = replace(fleet, windows=Slotframe.in_turn(3, 1))
    plain, owned = (simulate(scenario, "async", fleet=devices) for devices in (fleet, framed))
    assert uplink_rows(plain) == uplink_rows(owned)


def test_a_timeline_with_a_frame_is_read_as_it_was_written() -> None:
    timeline = played(random_case(4))
    assert timeline is not None
    assert Timeline.from_json(timeline.to_json()) == timeline
    assert timeline.first(2) == played(random_case(4), rounds=2)


def test_options_of_a_frame_say_the_same_as_the_list() -> None:
    table = {"devices": 3, "group_size": 1, "frame_slots": 8, "frame_offset": 3}
    listed = [(3, 1), (4, 2), (5, 3), (6, 1), (7, 2)]
    fleet = Setting.from_options(table).make_fleet()
    assert fleet.windows == Slotframe(8, tuple(OwnedSlot(*owned) for owned in listed))
    given = {"devices": 3, "group_size": 1, "frame_slots": 8, "owned_slots": listed}
    assert Setting.from_options(given).make_fleet() == fleet


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lambda: Slotframe(4, ()), "at least one"),
        (lambda: Slotframe(4, ((4, 1),)), "slot is a whole number from 0 to 3"),
        (lambda: Slotframe(4, ((1, 0),)), "device is"),
        (lambda: Slotframe(4, ((1, 2, 3),)), "pairs of a slot and a device"),
        (lambda: Slotframe(4, ((1, 2), (1, 2))), "listed once"),
        (lambda: Slotframe.in_turn(4, 3, 2), "frame_slots = 4: must be at least 5"),
    ],
)
def test_frames_that_cannot_be_are_refused(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        frame()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"owned_slots": [(0, 1)]}, "none of device 2: must be at least one for every device"),
        ({"owned_slots": [(0, 1), (1, 2), (2, 3)]}, "device 3: must be devices from 1 to 2"),
        ({"owned_slots": [(0, 1), (0, 2)]}, "slot 0 of 2 devices: must be owned by at most 1"),
        ({"owned_slots": [(0, 1), (1, 2)], "frame_offset": 1}, "frame_offset"),
        ({"frame_offset": 4}, "below frame_slots, 4"),
        ({"frame_slots": 1}, "frame_slots = 1: must be at least 2"),
        ({"radio_link": "rate-adaptive", "radio_bits": 99}, "frame_slots = 4: must be omitted over links"),
        ({"window_period": 8, "window_length": 4}, "window_period"),
        ({"deadline": 900_000_000, "group_size": 2}, "deadline"),
    ],
)
def test_frames_that_do_not_fit_the_other_options_are_refused(table: Any, message: str) -> None:
    options = {"devices": 2, "group_size": 1, "frame_slots": 4, **table}
    with pytest.raises(InputError, match=message):
        Setting.from_options(options).simulate()


def test_a_frame_and_batteries_are_refused_together() -> None:
    with pytest.raises(InputError, match="not simulated together"):
        Setting.from_options({"frame_slots": 200, "battery_joules": 9.0, "computing_joules": 1.0})


class Longer(Link):
    """A link whose slots are not known in advance."""

    devices = 2
    planned_broadcast_slots = 1
    planned_slots = (1, 1)

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        return Transmission(2)

    def broadcast(self, receivers: Any, slot: int) -> int:
        return 1

    def snr_db(self, slot: int) -> Any:
        return np.zeros(2)


def test_a_frame_is_refused_over_a_link_of_ones_own() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5, 5), link_slots=(1, 1), windows=Slotframe.in_turn(2, 2))
    with pytest.raises(InputError, match="frame_slots = 2: must be omitted over links"):
        simulate(scenario, "async", fleet=fleet, link=Longer())


def test_windows_and_a_frame_have_one_place_in_a_fleet() -> None:
    fleet = Fleet(compute_slots=(5,), link_slots=(1,), windows=Windows((Window(1, 0, 9),)))
    assert Fleet.from_dict(fleet.as_dict()) == fleet
    framed = replace(fleet, windows=Slotframe.in_turn(2, 1))
    assert Fleet.from_dict(framed.as_dict()) == framed
