"""Every aggregation along every schedule: engine, reference and a naive replay agree to the bit."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.aggregation import (
    NO_STATE,
    Ace,
    Aggregation,
    Contribution,
    DelayAdaptive,
    DelayCompensated,
    FedAdagrad,
    FedAdam,
    FedAsync,
    FedBuff,
    FedVarp,
    FedYogi,
    Hinge,
    Krum,
    Mifa,
    MultiKrum,
    NormClipping,
    Polynomial,
    ServerMomentum,
    StalenessWeightedMean,
    TrimmedMean,
    Vector,
    constant,
    coordinate_median,
    mean,
    next_model,
)
from slotwise.fleet import Absence, Fleet
from slotwise.fleet.distributions import Uniform, draw_slots, random_absences
from slotwise.learning import Task, Training, TrainingStart, train
from slotwise.learning.reference import asynchronous, synchronous
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

MakeTask = Callable[[int, int], Task]

AGGREGATIONS: list[Aggregation] = [
    mean,
    StalenessWeightedMean(Polynomial(0.5)),
    FedAsync(0.6, constant),
    FedAsync(0.6, Polynomial(0.5)),
    FedAsync(0.9, Hinge(10, 2)),
    FedBuff(0.5),
    DelayAdaptive(),
    DelayAdaptive(1.5),
    DelayCompensated(2.0),
    Mifa(0.5),
    Ace(memory_age=2),
    FedVarp(0.5),
    ServerMomentum(0.5),
    FedAdam(),
    FedYogi(),
    FedAdagrad(),
    TrimmedMean(0.2).__call__,  # the rule alone: the group sizes here are too small for its guarantee
    coordinate_median,
    Krum(1).__call__,
    MultiKrum(1).__call__,
    NormClipping(),
]
everyone = pytest.mark.parametrize(
    "aggregation", AGGREGATIONS, ids=lambda rule: re.sub(" at 0x[0-9a-f]+", "", repr(rule))
)


def models_of(timeline: Timeline, task: Task, **options: Any) -> list[Vector]:
    with Training(timeline, task, **options) as training:
        return [training.model for _ in training]


def replay(timeline: Timeline, task: Task, aggregation: Aggregation) -> list[Vector]:
    """w_1, w_2, …, keeping every model: what a timeline means, row by row."""
    models, trainings = [task.initial_model()], dict.fromkeys(range(1, timeline.scenario.devices + 1), 0)
    state = NO_STATE
    for k in range(timeline.rounds):
        sent = []
        for row in range(timeline.uplinks(k).start, timeline.uplinks(k).stop):
            device, version = int(timeline.device[row]), int(timeline.version[row])
            update = task.local_update(models[version], TrainingStart(device, trainings[device]))
            trainings[device] += 1
            devices = timeline.scenario.devices
            sent.append(Contribution(update, k - version, models[version], device, k, devices=devices))
        model, state = next_model(aggregation, models[k], sent, state)
        models.append(model)
    return models[1:]


def same(one: list[Vector], other: list[Vector]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


@st.composite
def unequal_timelines(draw: st.DrawFn) -> Timeline:
    """Devices of all speeds that lose uplinks, go away and come back; some rounds may stay empty."""
    devices = draw(st.integers(1, 6))
    seed = draw(st.integers(0, 999))
    scenario = Scenario(devices=devices, group_size=draw(st.integers(1, devices)), compute_slots=4)
    fleet = Fleet(
        compute_slots=draw_slots(Uniform(1, 12), devices, seed=seed),
        link_slots=draw_slots(Uniform(1, 3), devices, seed=seed, of="link"),
        uplink_loss=draw(st.sampled_from([0.0, 0.25])),
        absences=random_absences(devices, 200, mean_present=20, mean_away=15, seed=seed),
        seed=seed,
    )
    schedule = draw(st.sampled_from(["async", "idfl", "sync"]))
    return simulate(scenario, schedule, fleet=fleet, rounds=12)


@everyone
@pytest.mark.parametrize("delay", [0, 1, 2])
@pytest.mark.parametrize(("devices", "size"), [(6, 2), (7, 2), (3, 1)])
def test_engine_and_reference_agree_on_async_and_idfl(
    aggregation: Aggregation, delay: int, devices: int, size: int, least_squares: MakeTask
) -> None:
    scenario, task = Scenario(devices=devices, group_size=size, compute_slots=4), least_squares(devices, 1)
    timeline = simulate(scenario, "idfl", delay=delay, rounds=15)
    expected = list(asynchronous(scenario, task, 15, delay, aggregation))[1:]
    assert same(models_of(timeline, task, aggregation=aggregation), expected)


@everyone
def test_engine_and_reference_agree_on_sync(aggregation: Aggregation, least_squares: MakeTask) -> None:
    task = least_squares(6, 1)
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=4), "sync", rounds=9)

    def pairs(k: int) -> list[int]:
        return [2 * k % 6 + 1, 2 * k % 6 + 2]

    expected = list(synchronous(task, 9, pairs, aggregation, devices=6))[1:]
    assert same(models_of(timeline, task, aggregation=aggregation), expected)


@settings(max_examples=60)
@given(timeline=unequal_timelines(), aggregation=st.sampled_from(AGGREGATIONS))
def test_the_engine_does_what_the_timeline_of_any_fleet_says(
    timeline: Timeline, aggregation: Aggregation, least_squares: MakeTask
) -> None:
    task = least_squares(timeline.scenario.devices, 2)
    expected = replay(timeline, task, aggregation)
    assert same(models_of(timeline, task, aggregation=aggregation, workers=2), expected)


@settings(max_examples=30)
@given(timeline=unequal_timelines(), aggregation=st.sampled_from(AGGREGATIONS))
def test_the_number_of_workers_does_not_matter(
    timeline: Timeline, aggregation: Aggregation, least_squares: MakeTask
) -> None:
    task = least_squares(timeline.scenario.devices, 2)
    one, two, four = (models_of(timeline, task, aggregation=aggregation, workers=n) for n in (1, 2, 4))
    assert same(one, two)
    assert same(one, four)


@settings(max_examples=30)
@given(timeline=unequal_timelines(), aggregation=st.sampled_from(AGGREGATIONS))
def test_going_on_from_any_checkpoint_ends_the_same(
    timeline: Timeline, aggregation: Aggregation, least_squares: MakeTask
) -> None:
    task = least_squares(timeline.scenario.devices, 2)
    straight = train(timeline, task, aggregation=aggregation)
    with Training(timeline, task, aggregation=aggregation) as training:
        checkpoints = [training.history() for _ in training]
    for checkpoint in checkpoints:
        resumed = train(timeline, task, aggregation=aggregation, resume=checkpoint)
        assert np.array_equal(resumed.model, straight.model)


def test_rules_differ_except_on_updates_that_are_all_equally_old(least_squares: MakeTask) -> None:
    # N divisible by S: every update of a round is min(k, d*) rounds old.
    task = least_squares(6, 1)
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=20)
    weighted = models_of(timeline, task, aggregation=StalenessWeightedMean(Polynomial(3)))
    assert same(weighted, models_of(timeline, task))
    # Otherwise the tests above would compare constants. 12 devices in rounds of 5: staleness is mixed.
    task = least_squares(12, 1)
    timeline = simulate(Scenario(devices=12, group_size=5, compute_slots=2), "async", rounds=20)
    models = [train(timeline, task, aggregation=each).model.tobytes() for each in AGGREGATIONS]
    assert len(set(models)) == len(AGGREGATIONS)


@pytest.fixture
def interrupted() -> Timeline:
    """Both devices go away in their first training and come back: round 0 ends without an update."""
    fleet = Fleet(compute_slots=(4, 4), link_slots=(1, 1), absences=(Absence(1, 2, 9), Absence(2, 2, 9)))
    scenario = Scenario(devices=2, group_size=1, compute_slots=4)
    timeline = simulate(scenario, "async", fleet=fleet, rounds=3)
    assert np.diff(timeline.round_offsets).tolist() == [0, 1, 1]
    return timeline


@everyone
def test_a_round_without_uplinks_leaves_the_model_as_it_is(
    aggregation: Aggregation, interrupted: Timeline, least_squares: MakeTask
) -> None:
    task = least_squares(2, 0)
    first, second, third = models_of(interrupted, task, aggregation=aggregation)
    assert np.array_equal(first, task.initial_model())
    assert not np.array_equal(second, first)
    assert not np.array_equal(third, second)


def test_a_round_without_uplinks_is_a_point_of_staleness_0(
    interrupted: Timeline, least_squares: MakeTask
) -> None:
    points = train(interrupted, least_squares(2, 0), evaluate_every=1).points
    assert [(point.round, point.staleness) for point in points] == [(0, 0), (1, 0), (2, 0), (3, 1)]
    assert points[1].loss == points[0].loss


@everyone
def test_the_reference_too_keeps_the_model_of_a_round_without_participants(
    aggregation: Aggregation, least_squares: MakeTask
) -> None:
    participants: list[list[int]] = [[1], [], [2]]
    models = list(synchronous(least_squares(2, 0), 3, participants.__getitem__, aggregation))
    assert np.array_equal(models[2], models[1])
    assert not np.array_equal(models[3], models[2])
