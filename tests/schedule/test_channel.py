"""Sub-channels, fading, erasure, selections and batteries, uplink by uplink as the dumb loop has it."""

from hypothesis import given, settings
from random_fleets import DEADLINE, lost_rows, uplink_rows
from random_links import ChannelCase, channel_cases
from slot_by_slot import SlotBySlot

from slotwise import Synchronous, Timeline
from slotwise.battery_balance import nanojoules
from slotwise.costs import server_usage, usage
from slotwise.schedule.policies.synchronous import Participants


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


@settings(max_examples=200)
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
        gained = battery.harvested_until(n, 0, timeline.last_slot)
        assert harvested[place] >= gained  # a training that starts later may have been paid for already
    slots = usage(timeline)
    sent = [
        slots.sending[n - 1] * case.fleet.batteries.nanojoules("sending", n) for n in range(1, len(left) + 1)
    ]
    assert sending == sent


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
    assert sum(found) == timeline.last_slot
    assert len(rows) == len({(row[1], row[3]) for row in rows})
    busiest = max((sum(row[3] <= slot < row[4] for row in rows) for slot in on_air), default=0)
    assert busiest <= case.scenario.sub_channels
    assert not on_air & broadcasting
