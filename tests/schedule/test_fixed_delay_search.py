"""The automatic delay of unequal devices: no fixed delay that costs nothing is fresher."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotwise import Scenario, Timeline, simulate
from slotwise.base.errors import InputError
from slotwise.fleet import Fleet
from slotwise.schedule import IntentionalDelay, free_delay, scheduler_for
from slotwise.schedule.checked_link import CheckedLink
from slotwise.schedule.events import Drive, event_timeline
from slotwise.schedule.free_delay import FixedDelaySearch
from slotwise.schedule.link import FleetLink
from slotwise.schedule.policy import FixedDelay

JUST_IN_TIME = IntentionalDelay().for_planned_slots()
QUICK = Fleet(compute_slots=(1, 2, 1, 2, 2, 3, 1, 1, 1, 1, 2, 1, 1), link_slots=(1,) * 13)
QUICK_SCENARIO = Scenario(devices=13, group_size=6, compute_slots=2, deadline=2_000)


def cases(seed: int, number: int, sub_channels: int = 1) -> Iterator[tuple[Scenario, Fleet]]:
    """Yield small random fleets; every third has equal links."""
    draw = random.Random(seed)
    for i in range(number):
        devices = draw.randint(2, 14)
        longest = 5 if i % 3 else 1
        fleet = Fleet(
            compute_slots=tuple(draw.randint(1, 12) for _ in range(devices)),
            link_slots=tuple(draw.randint(1, longest) for _ in range(devices)),
        )
        size, broadcast = draw.randint(1, devices), draw.randint(1, longest)
        channel = {"link_slots": broadcast, "sub_channels": draw.randint(1, sub_channels)}
        yield Scenario(devices=devices, group_size=size, compute_slots=13, **channel), fleet


def fresher(auto: Timeline, rounds: int | None = None) -> list[int]:
    """Return the fixed delays that cost no round against ``auto`` and are fresher."""
    scenario, fleet = auto.scenario, auto.fleet
    better = []
    for delay in range(scenario.largest_delay + 1):
        fixed = simulate(scenario, "idfl", delay=delay, fleet=fleet, rounds=rounds)
        free = fixed.rounds >= auto.rounds and (rounds is None or fixed.last_slot <= auto.last_slot)
        if free and fixed.mean_staleness() < auto.mean_staleness():
            better.append(delay)
    return better


def test_a_fleet_whose_trainings_are_short_beside_a_round() -> None:
    without, rule, auto = (
        simulate(QUICK_SCENARIO, policy, fleet=QUICK) for policy in ("async", JUST_IN_TIME, "idfl")
    )
    assert without.rounds == rule.rounds == auto.rounds == 285
    assert rule.mean_staleness() == pytest.approx(0.996, abs=5e-4)
    assert auto.mean_staleness() == pytest.approx(0.169, abs=5e-4)
    assert (rule.delay, auto.delay) == (None, 1)


@pytest.mark.parametrize("seed", [0, 2])
def test_no_fixed_delay_that_costs_no_round_by_the_deadline_is_fresher(seed: int) -> None:
    chosen = 0
    for scenario, fleet in cases(seed, 40):
        auto = simulate(replace(scenario, deadline=400), "idfl", fleet=fleet)
        assert fresher(auto) == []
        chosen += auto.delay is not None
    assert chosen  # otherwise nothing was tested


@pytest.mark.parametrize(("seed", "sub_channels"), [(2, 1), (11, 3)])
def test_no_fixed_delay_that_ends_no_later_is_fresher(seed: int, sub_channels: int) -> None:
    chosen = 0
    for scenario, fleet in cases(seed, 30, sub_channels):
        auto = simulate(scenario, "idfl", fleet=fleet, rounds=30)
        assert fresher(auto, 30) == []
        chosen += auto.delay is not None
    assert chosen


def test_what_is_chosen_is_at_least_as_good_as_asynchronous_and_as_just_in_time() -> None:
    for scenario, fleet in cases(2, 30):
        limited = replace(scenario, deadline=400)
        without, rule, auto = (
            simulate(limited, policy, fleet=fleet) for policy in ("async", JUST_IN_TIME, "idfl")
        )
        assert auto.rounds >= rule.rounds == without.rounds
        assert auto.mean_staleness() <= rule.mean_staleness() <= without.mean_staleness()
        if auto.delay is None:  # also where a fixed delay is just as good
            assert auto == rule


def test_a_scheduler_makes_the_same_choice_and_rounds_do_not_change_it() -> None:
    for scenario, fleet in cases(0, 20):
        limited = replace(scenario, deadline=300)
        auto = simulate(limited, "idfl", fleet=fleet)
        scheduler = scheduler_for(limited, "idfl", fleet=fleet)
        record = Drive(scheduler, fleet, FleetLink.of(limited, fleet)).play(None, limited.deadline)
        assert Timeline.of(limited, "idfl", auto.delay, record, fleet) == auto
        assert event_timeline(limited, IntentionalDelay(), fleet, None, FleetLink.of(limited, fleet)) == auto
    for scenario, fleet in cases(0, 20):
        limited = replace(scenario, deadline=400)
        auto = simulate(limited, "idfl", fleet=fleet)
        assert simulate(limited, "idfl", fleet=fleet, rounds=3) == auto.first(3)
    with pytest.raises(InputError) as raised:
        simulate(replace(QUICK_SCENARIO, deadline=5), "idfl", fleet=QUICK)
    assert raised.value.parameter == "deadline"


@pytest.mark.parametrize("fault", [{"jitter": 0.01}, {"uplink_loss": 0.01}])
def test_with_faults_delivery_is_just_in_time(fault: dict[str, float]) -> None:
    fleet = replace(QUICK, **fault)  # type: ignore[arg-type]
    auto = simulate(QUICK_SCENARIO, "idfl", fleet=fleet)
    assert auto.delay is None
    assert auto == simulate(QUICK_SCENARIO, JUST_IN_TIME, fleet=fleet)


def test_over_a_link_delivery_is_just_in_time() -> None:
    link = CheckedLink(FleetLink.of(QUICK_SCENARIO, QUICK), QUICK.devices)
    assert simulate(QUICK_SCENARIO, "idfl", fleet=QUICK, link=link).delay is None
    assert not isinstance(scheduler_for(QUICK_SCENARIO, "idfl", fleet=QUICK, link=link).delivery, FixedDelay)


def test_bisection_finds_the_largest_free_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried one by one, the delays of these fleets have no gaps: bisection chooses the same."""
    all_tried = [simulate(replace(s, deadline=400), "idfl", fleet=f).delay for s, f in cases(0, 30)]
    monkeypatch.setattr(free_delay, "MOST_TRIED", 0)
    bisected = [simulate(replace(s, deadline=400), "idfl", fleet=f).delay for s, f in cases(0, 30)]
    assert bisected == all_tried


@pytest.mark.parametrize(("size", "slowest"), [(10, 3), (10, 60), (3, 400)])
def test_few_of_many_delays_are_simulated(size: int, slowest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of up to 99 delays are ruled out by the two bounds."""
    tried: list[int] = []
    staleness = FixedDelaySearch._staleness

    def counted(search: FixedDelaySearch, delay: int) -> float:
        tried.append(delay)
        return staleness(search, delay)

    monkeypatch.setattr(FixedDelaySearch, "_staleness", counted)
    draw = random.Random(6)
    fleet = Fleet(compute_slots=tuple(draw.randint(1, slowest) for _ in range(300)), link_slots=(1,) * 300)
    simulate(Scenario(devices=300, group_size=size, compute_slots=2, deadline=6_000), "idfl", fleet=fleet)
    assert len(tried) <= 6
