"""Sub-channels, fading, erasure, selections and batteries, uplink by uplink as the dumb loop has it."""

from hypothesis import given, settings
from random_fleets import DEADLINE, lost_rows, uplink_rows
from random_links import ChannelCase, channel_cases
from slot_by_slot import SlotBySlot

from slotwise import Synchronous, Timeline
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
