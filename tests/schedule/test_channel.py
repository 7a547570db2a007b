"""Sub-channels, fading, erasure, selections and batteries, uplink by uplink as the dumb loop has it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_fleets import DEADLINE, faultless_fleets, lost_rows, scenarios, uplink_rows
from random_links import ChannelCase, FadingLink, channel_cases, links
from slot_by_slot import SlotBySlot

from slotwise import (
    Asynchronous,
    InputError,
    IntentionalDelay,
    Scenario,
    Synchronous,
    Timeline,
    UserError,
    simulate,
    theory,
)
from slotwise.fleet import Absence, Batteries, Fleet
from slotwise.schedule import fading_simulator
from slotwise.schedule.battery_balance import BatteryBalance, nanojoules
from slotwise.schedule.costs import server_usage, usage
from slotwise.schedule.events import event_timeline
from slotwise.schedule.policies import Participants
from slotwise.schedule.simulators import BY_CHANNEL


def naive(case: ChannelCase) -> SlotBySlot:
    scenario, policy = case.scenario, case.policy
    loop = SlotBySlot(scenario, case.fleet, selection=policy.selection, link=case.link)
    if isinstance(policy, Synchronous):
        chosen = (scenario.devices, scenario.group_size, policy.participation, policy.seed)
        loop.synchronous = Participants(*chosen)
    else:
        delay = getattr(policy, "delay", 0)
        assert isinstance(delay, int)
        loop.delay = delay
    return loop.run(DEADLINE)


def in_order(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return sorted(rows, key=lambda row: (row[0], row[3], row[1]))


@settings(max_examples=500)
@given(channel_cases())
def test_every_uplink_is_that_of_the_dumb_loop_over_slots(case: ChannelCase) -> None:
    expected, timeline = naive(case), case.play()
    if timeline is None:
        assert expected.broadcasts == []
        return
    assert in_order(uplink_rows(timeline)) == in_order(expected.uplinks)
    assert in_order(lost_rows(timeline)) == in_order(expected.lost)
    assert list(zip(timeline.broadcast_start, timeline.broadcast_end, strict=True)) == expected.broadcasts
    assert [timeline.receivers(v).tolist() for v in range(timeline.models)] == expected.receivers
    assert Timeline.from_json(timeline.to_json()) == timeline
    by_device = list(zip(*expected.seen[: timeline.last_slot], strict=True))
    # Beside the last broadcast uplinks of the next round may begin, which are no part of the timeline.
    for kind in ("computing", "receiving", *(() if case.scenario.duplex == "fdd" else ("sending",))):
        assert getattr(usage(timeline), kind).tolist() == [seen.count(kind) for seen in by_device]


@st.composite
def fast_cases(draw: st.DrawFn) -> ChannelCase:
    scenario = draw(scenarios())
    policies = [IntentionalDelay(selection=one, delay=0) for one in BY_CHANNEL]
    policies += [Asynchronous(selection=one) for one in BY_CHANNEL]
    policies += [IntentionalDelay(selection=one, delay=scenario.largest_delay) for one in BY_CHANNEL]
    fleet = replace(
        draw(faultless_fleets(scenario)),
        retransmission=draw(st.sampled_from(["next-turn", "at-once", "erasure"])),
    )
    link = replace(draw(links(scenario.devices)), give_up_slots=draw(st.sampled_from([3, 9, 90])))
    return ChannelCase(scenario, fleet, link, draw(st.sampled_from(policies)))


@settings(max_examples=200)
@given(case=fast_cases(), entries=st.sampled_from([1, 40, 10_000]))
def test_the_fast_simulation_of_fading_equals_the_scheduler(case: ChannelCase, entries: int) -> None:
    options = (case.scenario, case.policy, case.fleet, None, case.link)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fading_simulator, "_TABLE", entries)  # uplinks that end after the table, too
        patch.setattr(fading_simulator, "_ROWS", 2)
        fast = fading_simulator.fading_timeline(*options)
    assert fast is not None
    assert fast == event_timeline(*options)


@given(channel_cases())
def test_every_joule_is_accounted_for(case: ChannelCase) -> None:
    timeline = case.play()
    if timeline is None or case.fleet.batteries is None:
        return
    *paid, left = nanojoules(timeline)  # it pays in order of time, and refuses what a battery does not hold
    initial, harvested, computing, sending, spilled = paid
    slots = usage(timeline)
    for n in range(1, case.scenario.devices + 1):
        place, battery = n - 1, case.fleet.batteries
        spent = computing[place] + sending[place]
        assert initial[place] + harvested[place] == spent + spilled[place] + left[place]
        assert 0 <= left[place] <= battery.nanojoules("capacity", n)
        assert harvested[place] == battery.harvested_until(n, 0, timeline.last_slot)
        assert sending[place] == slots.sending[place] * battery.nanojoules("sending", n)


@given(channel_cases())
def test_the_server_receives_while_any_uplink_is_on_the_air(case: ChannelCase) -> None:
    timeline = case.play()
    if timeline is None:
        return
    rows = [*uplink_rows(timeline), *lost_rows(timeline)]
    on_air = {slot for row in rows for slot in range(row[3], row[4])}
    pairs = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    broadcasting = {slot for start, end in pairs for slot in range(start, end)}
    found = server_usage(timeline)
    assert (found.sending, found.receiving) == (len(broadcasting), len(on_air))
    assert found.idle == timeline.last_slot - len(broadcasting | on_air)
    assert len(rows) == len({(row[1], row[3]) for row in rows})
    busiest = max((sum(row[3] <= slot < row[4] for row in rows) for slot in on_air), default=0)
    assert busiest <= case.scenario.sub_channels
    assert case.scenario.duplex == "fdd" or not on_air & broadcasting


@given(
    scenario=scenarios(deadline=None),
    channels=st.integers(1, 8),
    schedule=st.sampled_from(["sync", "async", "idfl"]),
)
def test_sub_channels_of_equal_devices_need_no_events(
    scenario: Scenario, channels: int, schedule: str
) -> None:
    several = replace(scenario, sub_channels=channels)
    fast = simulate(several, schedule, rounds=25)
    assert fast == simulate(several, schedule, rounds=25, event_by_event=True)
    if channels == 1:
        assert fast == simulate(scenario, schedule, rounds=25)
    if not scenario.divides:
        return
    delay = theory.free_delay(several) if schedule == "idfl" else 0
    assert fast.delay == (delay if schedule != "sync" else 0)
    if schedule == "sync":
        assert fast.last_slot == 25 * theory.sync_round_slots(several)
    else:
        ends = [theory.round_end(several, k, delay) for k in range(25)]
        assert fast.broadcast_end.tolist() == ends
        assert fast.broadcast_end.tolist() == simulate(several, "async", rounds=25).broadcast_end.tolist()


@given(scenario=scenarios(), channels=st.integers(2, 8), data=st.data())
def test_just_in_time_on_sub_channels_costs_nothing(
    scenario: Scenario, channels: int, data: st.DataObject
) -> None:
    several = replace(scenario, sub_channels=channels, deadline=None)
    fleet = data.draw(faultless_fleets(scenario))
    assume(not fleet.is_equal_to(several))  # equal devices have one delay, which keeps the round ends only
    rule = IntentionalDelay().for_planned_slots()
    plain, delayed = (simulate(several, policy, fleet=fleet, rounds=15) for policy in ("async", rule))
    assert delayed.start.tolist() == plain.start.tolist()
    assert delayed.device.tolist() == plain.device.tolist()
    assert (delayed.staleness <= plain.staleness).all()
    assert delayed == simulate(several, rule, fleet=fleet, rounds=15, event_by_event=True)


def test_a_round_on_sub_channels_takes_its_share_of_slots() -> None:
    scenario = Scenario(devices=100, group_size=10, compute_slots=1, link_slots=2, sub_channels=4)
    assert scenario.communication_slots == 2 * (3 + 1)
    assert theory.round_slots(scenario) == 8
    with pytest.raises(InputError):
        theory.round_slots(replace(scenario, group_size=7))


def test_an_erased_update_ends_its_round_without_it() -> None:
    scenario = Scenario(devices=6, group_size=3, compute_slots=2)
    fleet = Fleet(
        compute_slots=(2,) * 6,
        link_slots=(1,) * 6,
        device_uplink_loss=(0, 0, 0.999999, 0, 0, 0),
        retransmission="erasure",
    )
    timeline = simulate(scenario, "async", fleet=fleet, rounds=8)
    without = simulate(scenario, "async", rounds=8)
    assert timeline.broadcast_end.tolist() == without.broadcast_end.tolist()
    assert set(timeline.lost[:, 1].tolist()) == {3}
    assert len(timeline) + len(timeline.lost) == len(without)
    assert [timeline.receivers(v).tolist() for v in range(9)] == [
        without.receivers(v).tolist() for v in range(9)
    ]


def test_largest_age_and_shares_are_fair_where_the_best_channel_is_not() -> None:
    link = FadingLink(6, seed=1, outage_db=-30.0)
    better = replace(link, seed=1)
    scenario = Scenario(devices=6, group_size=1, compute_slots=1, deadline=600)
    counts = {}
    for name in ("best-channel", "largest-age", "round-robin"):
        sent = simulate(scenario, "async", link=better, selection=name).device
        counts[name] = np.bincount(sent, minlength=7)[1:]
    assert np.ptp(counts["largest-age"]) <= 1
    assert np.ptp(counts["round-robin"]) <= 1
    assert np.ptp(counts["best-channel"]) > 1


def test_a_choice_by_channel_needs_one() -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=1)
    for options in ({"selection": "best-channel"}, {"participation": "best-channel"}):
        with pytest.raises(InputError):
            simulate(scenario, "sync", rounds=3, **options)  # type: ignore[arg-type]


def test_a_device_that_can_never_pay_takes_no_part_any_more() -> None:
    battery = Batteries(capacity=(9.0,), computing=(1.0,), sending=(1.0,))
    fleet = Fleet(compute_slots=(2, 2, 2), link_slots=(1, 1, 1), batteries=battery)
    scenario = Scenario(devices=3, group_size=2, compute_slots=2, deadline=100)
    timeline = simulate(scenario, "async", fleet=fleet)
    assert np.bincount(timeline.device).tolist() == [0, 3, 3, 3]  # 3 J each
    assert BatteryBalance.of(timeline).left.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InputError) as caught:
        simulate(scenario, "async", fleet=replace(fleet, batteries=replace(battery, capacity=(2.9,))))
    assert caught.value.parameter == "battery_joules"


def test_more_sub_channels_than_uplinks_change_nothing() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=3, sub_channels=2)
    timelines = [simulate(replace(scenario, sub_channels=c), rounds=9) for c in (2, 10**9)]
    assert timelines[0].start.tolist() == timelines[1].start.tolist()


def test_a_link_without_its_methods_is_refused() -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=1)
    with pytest.raises(UserError, match="uplink"):
        simulate(scenario, "async", rounds=2, link=object())  # type: ignore[arg-type]


def test_devices_that_cannot_pay_for_a_round_are_refused() -> None:
    empty = Batteries(capacity=(9.0,), initial=(0.0,), computing=(1.0,), sending=(0.0,))
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), batteries=empty)
    for deadline in (None, 50):
        scenario = Scenario(devices=2, group_size=1, compute_slots=2, deadline=deadline)
        with pytest.raises(InputError) as caught:
            simulate(scenario, "async", fleet=fleet, rounds=3)
        assert caught.value.parameter == "battery_joules"


def test_a_device_that_left_while_it_sent_waits_for_no_energy() -> None:
    battery = Batteries(capacity=(40.0,), initial=(10.0,), computing=(1.0,), sending=(1.0,), harvest=(0.5,))
    absences = (Absence(1, 7, 8),)
    fleet = Fleet(compute_slots=(1, 1), link_slots=(9, 1), absences=absences, batteries=battery)
    scenario = Scenario(devices=2, group_size=1, compute_slots=5, link_slots=2)
    timeline = simulate(scenario, "async", fleet=fleet, rounds=1)
    assert timeline.lost[:, 1].tolist() == [1]
    assert [row for row in timeline.waits.tolist() if row[1] == 0] == []
