"""Any fleet, driven and counted as the dumb loop over slots does it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from random_fleets import DEADLINE, MANY, Case, cases, driven, fleets, lost_rows, scenarios, uplink_rows
from slot_by_slot import SlotBySlot, naive

from slotwise import Scenario, simulate
from slotwise.schedule.costs import Usage, usage
from slotwise.schedule.just_in_time import Planned


def assert_counted(counted: Usage, by_device: list[tuple[str, ...]]) -> None:
    """The slots of each device are those in which the loop has seen it so."""
    assert counted.computing.tolist() == [seen.count("computing") for seen in by_device]
    assert counted.sending.tolist() == [seen.count("sending") for seen in by_device]
    assert counted.receiving.tolist() == [seen.count("receiving") for seen in by_device]
    assert counted.idle.tolist() == [seen.count("waiting") + seen.count("ready") for seen in by_device]


@MANY
@given(cases(planned=False))
def test_any_fleet_is_driven_as_the_dumb_loop_over_slots_drives_it(case: Case) -> None:
    expected, timeline = naive(case), case.play()
    if timeline is None:
        assert expected.broadcasts == []
        return
    slots = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    assert uplink_rows(timeline) == expected.uplinks
    assert lost_rows(timeline) == expected.lost
    assert list(slots) == expected.broadcasts
    assert [timeline.receivers(v).tolist() for v in range(timeline.models)] == expected.receivers


@MANY
@given(cases(planned=False))
def test_slots_of_each_device_are_counted_as_the_dumb_loop_counts_them(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    by_device = list(zip(*naive(case).seen[: timeline.last_slot], strict=True))
    counted = usage(timeline)
    assert_counted(counted, by_device)
    assert sum(counted).tolist() == [timeline.last_slot - seen.count("away") for seen in by_device]


@MANY
@given(case=cases(planned=False), data=st.data())
def test_the_beginning_of_a_run_has_spent_what_the_dumb_loop_has_by_then(
    case: Case, data: st.DataObject
) -> None:
    if (timeline := case.play()) is None:
        return
    rounds = data.draw(st.integers(1, timeline.rounds))
    beginning = timeline.first(rounds)
    assert beginning.last_slot == timeline.broadcast_end[rounds - 1]
    by_device = list(zip(*naive(case).seen[: beginning.last_slot], strict=True))
    counted = usage(beginning)
    assert_counted(counted, by_device)


@given(scenario=scenarios(), data=st.data())
def test_a_plan_is_followed_through_faults_as_the_dumb_loop_follows_it(
    scenario: Scenario, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))
    expected = fleet.without_faults()
    plan = simulate(replace(scenario, deadline=None), "idfl", fleet=expected, rounds=40)
    record = driven(scenario, fleet, Planned.of(plan))
    naively = SlotBySlot(scenario, fleet, plan=plan).run(DEADLINE)
    assert record.uplinks == naively.uplinks
    assert record.lost == naively.lost
    assert record.broadcasts == naively.broadcasts
    assert [list(group) for group in record.receivers] == naively.receivers
