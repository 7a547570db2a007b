import doctest
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import slotwise
from slotwise import InputError, Scenario, Timeline, UserError, simulate
from slotwise.fleet import Fleet
from slotwise.schedule import Asynchronous, Synchronous, automatic_delay, most_uplinks, scheduler_for
from slotwise.schedule.batches import round_ends

EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2)


def test_the_example_of_the_package_prints_what_it_says() -> None:
    result = doctest.testmod(slotwise)
    assert result.attempted > 0
    assert result.failed == 0


def told(timeline: Timeline) -> list[tuple[Any, ...]]:
    """Round by round: (slot, sender, version) of the uplinks, then (slot, receivers) of the broadcast."""
    return [
        (
            list(
                zip(
                    timeline.start[rows].tolist(),
                    timeline.device[rows].tolist(),
                    timeline.version[rows].tolist(),
                    strict=True,
                )
            ),
            (int(timeline.broadcast_start[k]), timeline.receivers(k + 1).tolist()),
        )
        for k in range(timeline.rounds)
        for rows in [timeline.uplinks(k)]
    ]


@pytest.mark.parametrize("event_by_event", [False, True])
@pytest.mark.parametrize(
    ("schedule", "starters", "delay", "staleness", "rounds"),
    [
        (
            "async",
            [1, 2, 3, 4, 5, 6],
            0,
            [0, 0, 1, 1, 2, 2, 2, 2],
            [
                ([(2, 1, 0), (3, 2, 0)], (4, [1, 2])),
                ([(5, 3, 0), (6, 4, 0)], (7, [3, 4])),
                ([(8, 5, 0), (9, 6, 0)], (10, [5, 6])),
                ([(11, 1, 1), (12, 2, 1)], (13, [1, 2])),
            ],
        ),
        (
            "idfl",
            [1, 2, 3, 4],
            1,
            [0, 0, 1, 1, 1, 1, 1, 1],
            [
                ([(2, 1, 0), (3, 2, 0)], (4, [5, 6])),
                ([(5, 3, 0), (6, 4, 0)], (7, [1, 2])),
                ([(8, 5, 1), (9, 6, 1)], (10, [3, 4])),
                ([(11, 1, 2), (12, 2, 2)], (13, [5, 6])),
            ],
        ),
        (
            "sync",
            [1, 2],
            0,
            [0, 0, 0, 0],
            [([(2, 1, 0), (3, 2, 0)], (4, [3, 4])), ([(7, 3, 1), (8, 4, 1)], (9, [5, 6]))],
        ),
    ],
)
def test_the_worked_example_of_the_paper_slot_by_slot(
    schedule: str, starters: Any, delay: int, staleness: Any, rounds: Any, event_by_event: bool
) -> None:
    timeline = simulate(EXAMPLE, schedule, rounds=len(rounds), event_by_event=event_by_event)
    assert timeline.receivers(0).tolist() == starters
    assert (timeline.delay, timeline.staleness.tolist()) == (delay, staleness)
    assert told(timeline) == rounds


@pytest.mark.parametrize(
    ("devices", "compute", "deadline", "sizes", "models"),
    [
        (100, 50, 50_000, [1, 5, 10, 25, 50, 100], [24976, 8326, 4541, 1922, 980, 332]),
        (20, 4, 100_000, [1, 2, 5, 10, 20], [49999, 33333, 16667, 9091, 4001]),
    ],
)
@pytest.mark.parametrize("schedule", ["async", "idfl"])
def test_simulated_models_are_those_of_the_papers_table(
    devices: int, compute: int, deadline: int, sizes: list[int], models: list[int], schedule: Any
) -> None:
    scenarios = [
        Scenario(devices=devices, group_size=size, compute_slots=compute, deadline=deadline) for size in sizes
    ]
    assert [simulate(scenario, schedule).models for scenario in scenarios] == models


@pytest.mark.parametrize(
    ("size", "asynchronous", "delayed"),
    [(1, 99, 25), (5, 19, 9), (10, 9, 5), (25, 3, 2), (50, 1, 1), (100, 0, 0)],
)
def test_simulated_staleness_is_that_of_the_mnist_case(size: int, asynchronous: int, delayed: int) -> None:
    scenario = Scenario(devices=100, group_size=size, compute_slots=50, deadline=50_000)
    assert simulate(scenario, "async").max_staleness() == asynchronous
    assert simulate(scenario, "idfl").max_staleness() == delayed


@pytest.mark.parametrize(("compute", "age", "delay"), [(50, 25, 74), (10, 5, 94), (2, 1, 98)])
def test_the_delay_found_for_groups_of_one_is_that_of_the_paper(compute: int, age: int, delay: int) -> None:
    scenario = Scenario(devices=100, group_size=1, compute_slots=compute)
    timeline = simulate(scenario, "idfl", rounds=300)
    assert (timeline.delay, timeline.max_staleness()) == (delay, age)


def test_special_cases_are_other_schedules_and_the_first_limit_stops() -> None:
    scenario = Scenario(devices=6, group_size=6, compute_slots=3, link_slots=2)
    assert told(simulate(scenario, "async", rounds=5)) == told(simulate(scenario, "sync", rounds=5))
    assert told(simulate(EXAMPLE, "idfl", delay=0, rounds=9)) == told(simulate(EXAMPLE, "async", rounds=9))
    limited = Scenario(**EXAMPLE.as_dict() | {"deadline": 8})
    assert simulate(limited, rounds=1).rounds == 1
    assert simulate(limited, rounds=50).rounds == 2
    timeline = simulate(EXAMPLE, "idfl", delay=np.int64(1), rounds=np.int64(3))  # type: ignore[arg-type]
    assert timeline == simulate(EXAMPLE, "idfl", delay=1, rounds=3)


@st.composite
def uneven(draw: st.DrawFn) -> Scenario:
    size = draw(st.integers(2, 20))
    return Scenario(
        devices=draw(st.integers(size + 1, 100).filter(lambda n: n % size)),
        group_size=size,
        compute_slots=draw(st.integers(1, 200)),
        link_slots=draw(st.integers(1, 5)),
    )


@st.composite
def uneven_timelines(draw: st.DrawFn) -> Timeline:
    scenario = draw(uneven())
    delay = draw(st.integers(0, scenario.largest_delay))
    return simulate(scenario, "idfl", delay=delay, rounds=3 * scenario.groups)


@given(uneven_timelines())
def test_the_channel_serves_one_at_a_time_in_the_order_of_readiness(timeline: Timeline) -> None:
    starts = np.concatenate([timeline.start, timeline.broadcast_start])
    ends = np.concatenate([timeline.end, timeline.broadcast_end])
    order = np.argsort(starts)
    assert np.all(starts[order][1:] >= ends[order][:-1])
    assert np.all(ends - starts == timeline.scenario.link_slots)
    finished = timeline.received_at(timeline.version) + timeline.scenario.compute_slots
    queue = list(zip(finished.tolist(), timeline.device.tolist(), strict=True))
    assert queue == sorted(queue)  # ties go to the lower index
    # It never waits while somebody is ready.
    opens = np.concatenate([[0], timeline.broadcast_end[:-1]])[timeline.round]
    first = np.concatenate([[True], np.diff(timeline.round) > 0])
    free = np.where(first, opens, np.concatenate([[0], timeline.end[:-1]]))
    assert np.array_equal(timeline.start, np.maximum(free, finished))


@given(uneven_timelines())
def test_a_device_does_one_thing_at_a_time(timeline: Timeline) -> None:
    tasks = defaultdict(list)
    for version in range(timeline.models):
        received = int(timeline.received_at(np.array([version]))[0])
        for device in timeline.receivers(version).tolist():
            tasks[device] += [(received, received + timeline.scenario.compute_slots)]
            if version:
                tasks[device] += [(int(timeline.broadcast_start[version - 1]), received)]
    for device, start, end in zip(timeline.device, timeline.start, timeline.end, strict=True):
        tasks[int(device)] += [(int(start), int(end))]
    for intervals in tasks.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(intervals)))


@given(uneven_timelines())
def test_rounds_are_full_everyone_is_heard_and_no_update_is_too_old(timeline: Timeline) -> None:
    assert np.all(np.bincount(timeline.round) == timeline.scenario.group_size)
    assert set(timeline.device.tolist()) == set(range(1, timeline.scenario.devices + 1))
    assert timeline.staleness.min() >= 0
    assert timeline.max_staleness() <= timeline.scenario.groups - 1 - timeline.delay


@given(scenario=uneven(), deadline=st.integers(1, 4_000))
def test_the_automatic_delay_costs_no_round_by_the_deadline_and_one_more_does(
    scenario: Scenario, deadline: int
) -> None:
    limited = Scenario(**scenario.as_dict() | {"deadline": deadline})
    rounds = len(list(round_ends(limited)))
    delay = automatic_delay(limited)
    assert len(list(round_ends(limited, delay))) == rounds
    if delay < limited.largest_delay:
        assert len(list(round_ends(limited, delay + 1))) < rounds


@given(scenario=uneven(), slack=st.integers(0, 4_000))
def test_the_automatic_delay_of_a_deadline_is_at_least_the_one_that_costs_no_slot(
    scenario: Scenario, slack: int
) -> None:
    deadline = scenario.compute_slots + scenario.communication_slots + slack
    limited = Scenario(**scenario.as_dict() | {"deadline": deadline})
    assert automatic_delay(limited) >= automatic_delay(scenario)


@given(scenario=uneven(), rounds=st.integers(1, 20))
def test_the_last_round_is_the_last_that_ends_by_the_deadline(scenario: Scenario, rounds: int) -> None:
    ends = list(round_ends(scenario, 0, rounds + 1))
    assume(ends[-1] - 1 > ends[-2])
    for deadline in (ends[-2], ends[-1] - 1):
        limited = Scenario(**scenario.as_dict() | {"deadline": deadline})
        assert simulate(limited, "async").broadcast_end.tolist() == ends[:-1]


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"policy": "fedavg"}, "schedule"),
        ({"policy": "no module:f"}, "schedule"),
        ({"policy": "sync", "participation": "all"}, "participation"),
        ({"policy": "async", "participation": "random"}, "participation"),
        ({"policy": "idfl", "participation": "random"}, "participation"),
        ({"policy": "async", "delay": 1}, "delay"),
        ({"policy": "sync", "delay": 2}, "delay"),
        ({"policy": "idfl", "delay": 3}, "delay"),
        ({"policy": "idfl", "delay": -1}, "delay"),
        ({"policy": "idfl", "delay": 1.0}, "delay"),
        ({"policy": "idfl", "delay": True}, "delay"),
        ({"selection": "last-ready"}, "selection"),
        ({"policy": Asynchronous(), "delay": 1}, "delay"),
        ({"policy": Asynchronous(), "participation": "random"}, "participation"),
        ({"policy": Asynchronous(), "selection": "random"}, "selection"),
        ({"policy": Asynchronous(), "seed": 1}, "seed"),
        ({"policy": "sync", "seed": "x"}, "seed"),
        ({"policy": "sync", "seed": None}, "seed"),
        ({"policy": "idfl", "seed": -1}, "seed"),
        ({"policy": "idfl", "seed": 1.0}, "seed"),
        ({"policy": Asynchronous(), "seed": None}, "seed"),
        ({"policy": None}, "policy"),
        ({"policy": Asynchronous}, "policy"),
        ({"policy": 3}, "policy"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"rounds": None}, "rounds"),
    ],
)
def test_options_out_of_range_or_without_effect_are_refused(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        simulate(EXAMPLE, **{"rounds": 1} | options)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize("event_by_event", [False, True])
def test_a_deadline_in_which_no_round_fits_is_refused(schedule: Any, event_by_event: bool) -> None:
    limited = Scenario(**EXAMPLE.as_dict() | {"deadline": 4})
    with pytest.raises(InputError, match=r"^deadline = 4: "):
        simulate(limited, schedule, event_by_event=event_by_event)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize(
    "faults",
    [{}, {"uplink_loss": 0.6, "jitter": 0.3}, {"absences": [(1, 2, 20)]}],
    ids=["unequal", "losses", "absences"],
)
def test_the_deadline_that_a_fleet_needs_is_named(schedule: Any, faults: dict[str, Any]) -> None:
    fleet = Fleet(compute_slots=(2, 3, 4, 9, 9, 9), link_slots=(1, 2, 1, 5, 1, 1), **faults)
    with pytest.raises(InputError, match=r"at least (about )?\d+,") as caught:
        simulate(replace(EXAMPLE, deadline=3), schedule, fleet=fleet)
    needed = int(caught.value.allowed.partition(",")[0].split()[-1])
    assert simulate(replace(EXAMPLE, deadline=needed), schedule, fleet=fleet).last_slot == needed
    with pytest.raises(InputError) as caught:
        simulate(replace(EXAMPLE, deadline=needed - 1), schedule, fleet=fleet)
    assert caught.value.parameter == "deadline"


def test_a_deadline_is_refused_at_once_if_nearly_all_uplinks_are_lost() -> None:
    fleet = Fleet(compute_slots=(2,) * 6, link_slots=(1,) * 6, uplink_loss=1 - 1e-12)
    with pytest.raises(InputError, match="more than 5") as caught:
        simulate(replace(EXAMPLE, deadline=4), "async", fleet=fleet)
    assert caught.value.parameter == "deadline"


def test_a_scheduler_of_unequal_devices_just_in_time_needs_a_deadline() -> None:
    fleet = Fleet(compute_slots=(2, 3), link_slots=(1, 1))
    with pytest.raises(InputError, match="rounds"):
        scheduler_for(Scenario(devices=2, group_size=1, compute_slots=2), "idfl", fleet=fleet)


@st.composite
def channels(draw: st.DrawFn) -> Scenario:
    """Group sizes that may change, on some sub-channels."""
    devices, deadline = draw(st.integers(1, 10)), draw(st.integers(40, 200))
    slots = sorted(draw(st.sets(st.integers(1, deadline), max_size=3)))
    return Scenario(
        devices=devices,
        group_size=draw(st.integers(1, devices)),
        compute_slots=draw(st.integers(1, 6)),
        link_slots=draw(st.integers(1, 3)),
        deadline=deadline,
        group_size_changes=tuple((slot, draw(st.integers(1, devices))) for slot in slots),
        sub_channels=draw(st.integers(1, 5)),
    )


@given(channels(), st.sampled_from(["sync", "async", "idfl"]), st.none() | st.integers(1, 30))
@example(
    Scenario(devices=10, group_size="5@0, 4@3", compute_slots=1, deadline=300, sub_channels=4), "async", None
)
def test_no_timeline_has_more_uplinks_than_the_bound(
    scenario: Scenario, schedule: str, rounds: int | None
) -> None:
    assert len(simulate(scenario, schedule, rounds=rounds)) <= most_uplinks(
        scenario, rounds, Fleet.equal(scenario)
    )


def fails(waiting: Any, round_number: int, last_sender: int) -> Any:
    raise RuntimeError("no idea")


def no_device(waiting: Any, round_number: int, last_sender: int) -> Any:
    return 999


@pytest.mark.parametrize(("option", "policy"), [("selection", Asynchronous), ("participation", Synchronous)])
@pytest.mark.parametrize(
    ("function", "says"), [(fails, "RuntimeError: no idea"), (no_device, "returned 999")]
)
def test_errors_of_an_own_selection_name_option_and_function(
    option: str, policy: Any, function: Any, says: str
) -> None:
    with pytest.raises(UserError, match=f"^{option} {__name__}:{function.__name__}: {says}"):
        simulate(Scenario(devices=4, group_size=2, compute_slots=3), policy(**{option: function}), rounds=2)
