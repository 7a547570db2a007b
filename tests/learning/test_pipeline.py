"""UpdatePipeline: updates in the order of the channel, computed a bounded number ahead."""

from collections.abc import Collection, Sequence
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Vector
from slotwise.learning.course import Planned
from slotwise.learning.pipeline import PORTION_BYTES, PORTION_SECONDS, PORTIONS_PER_WORKER, UpdatePipeline
from slotwise.learning.task import Evaluation, TrainingStart
from slotwise.learning.workers import Trained, TrainingJob
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


class NumberedWorkers:
    """Answer at once with the number of the training, or not before they are told to."""

    def __init__(self, count: int, seconds: float, *, at_once: bool = True) -> None:
        self.count, self._seconds, self._at_once = count, seconds, at_once
        self.portions: list[list[TrainingStart]] = []
        self.dropped: list[int] = []

    def train(self, jobs: Sequence[TrainingJob]) -> Future[Trained]:
        self.portions.append([start for _, start in jobs])
        future: Future[Trained] = Future()
        if self._at_once:
            updates = [np.float32([start.device, start.training]) for _, start in jobs]
            future.set_result(Trained(updates, self._seconds * len(jobs)))
        return future

    def evaluate(self, round_number: int, model: Vector, states: object = None) -> Future[Evaluation]:
        raise AssertionError("a pipeline evaluates nothing")

    def drop(self, rounds: Collection[int]) -> None:
        self.dropped += rounds

    def end_trainings(self) -> None:
        pass

    def close(self) -> None:
        pass


def models(timeline: Timeline) -> dict[int, Vector]:
    """All models: none has to be waited for."""
    return {version: np.float32([version]) for version in range(timeline.rounds + 1)}


@given(
    devices=st.integers(1, 12),
    workers=st.integers(1, 4),
    seconds=st.sampled_from([0.0, PORTION_SECONDS / 7, PORTION_SECONDS]),
    data=st.data(),
)
def test_updates_come_in_the_order_of_the_uplinks(
    devices: int, workers: int, seconds: float, data: st.DataObject
) -> None:
    group_size = data.draw(st.integers(1, devices))
    timeline = simulate(Scenario(devices=devices, group_size=group_size, compute_slots=3), "async", rounds=9)
    first = data.draw(st.integers(0, len(timeline)))
    pipeline = UpdatePipeline(
        Planned(timeline, None), NumberedWorkers(workers, seconds), models(timeline), first
    )
    pipeline.start()
    found: list[list[float]] = []
    while len(found) < len(timeline) - first:
        place = first + len(found)
        uplinks = slice(place, min(len(timeline), place + data.draw(st.integers(1, group_size))))
        updates = pipeline.updates(uplinks)
        assert all(a is b for a, b in zip(updates, pipeline.updates(uplinks), strict=True))  # still there
        found += [update.tolist() for update in updates]
    wanted = np.stack([timeline.device, timeline.training], axis=1)[first:]
    assert found == wanted.tolist()


@given(devices=st.integers(1, 9), delay=st.integers(0, 3), data=st.data())
def test_a_model_is_dropped_once_after_its_last_training_and_never_used_again(
    devices: int, delay: int, data: st.DataObject
) -> None:
    group_size = data.draw(st.integers(1, devices))
    scenario = Scenario(devices=devices, group_size=group_size, compute_slots=3)
    timeline = simulate(scenario, "idfl", delay=min(delay, scenario.largest_delay), rounds=9)
    workers = NumberedWorkers(2, PORTION_SECONDS)
    pipeline = UpdatePipeline(Planned(timeline, None), workers, models(timeline), 0)
    pipeline.start()
    for uplink in range(len(timeline)):
        before = set(workers.dropped)
        pipeline.updates(slice(uplink, uplink + 1))
        started = {start.round for portion in workers.portions for start in portion}
        assert not before & set(timeline.version[uplink:].tolist())
        assert set(workers.dropped) <= started
    assert sorted(workers.dropped) == sorted(set(timeline.version.tolist()))


def test_trainings_of_later_rounds_start_early_but_never_too_many() -> None:
    timeline = simulate(Scenario(devices=100, group_size=100, compute_slots=2), "async", rounds=1)
    workers = NumberedWorkers(2, 1.0, at_once=False)
    UpdatePipeline(Planned(timeline, None), workers, models(timeline), 0).start()
    started = [start.device for portion in workers.portions for start in portion]
    assert started == list(range(1, 2 * PORTIONS_PER_WORKER + 1))
    # Staleness is parallelism: with S = 1 and eight devices that all have w_0, all eight can train at once.
    timeline = simulate(Scenario(devices=8, group_size=1, compute_slots=2), "async", rounds=20)
    workers = NumberedWorkers(2, 1.0, at_once=False)
    UpdatePipeline(Planned(timeline, None), workers, {0: np.zeros(1, np.float32)}, 0).start()
    assert len(workers.portions) == 8


@pytest.mark.parametrize(("seconds", "sizes"), [(PORTION_SECONDS, {1}), (PORTION_SECONDS / 100, {5})])
def test_short_trainings_are_given_to_workers_together_and_in_equal_parts(
    seconds: float, sizes: set[int]
) -> None:
    timeline = simulate(Scenario(devices=10, group_size=10, compute_slots=2), "sync", rounds=4)
    workers, known = NumberedWorkers(2, seconds), {0: np.zeros(1, np.float32)}
    pipeline = UpdatePipeline(Planned(timeline, None), workers, known, 0)
    for version in range(timeline.rounds):
        known[version] = np.zeros(1, np.float32)
        pipeline.start()
        pipeline.updates(slice(10 * version, 10 * version + 10))
    after_the_first_round = [portion for portion in workers.portions if portion[0].round > 0]
    assert {len(portion) for portion in after_the_first_round} == sizes


def test_a_training_that_took_no_time_does_not_put_all_others_on_one_worker() -> None:
    timeline = simulate(Scenario(devices=40, group_size=40, compute_slots=2), "sync", rounds=1)
    workers = NumberedWorkers(4, 0.0)
    pipeline = UpdatePipeline(Planned(timeline, None), workers, models(timeline), 0)
    pipeline.start()
    pipeline.updates(slice(0, 40))
    assert max(map(len, workers.portions)) <= 10


def test_portions_of_large_updates_are_small() -> None:
    class LargeWorkers(NumberedWorkers):
        def train(self, jobs: Sequence[TrainingJob]) -> Future[Trained]:
            future = super().train(jobs)
            large = np.zeros(PORTION_BYTES // 8, np.float32)  # two of them in a portion
            answered: Future[Trained] = Future()
            answered.set_result(Trained([large for _ in jobs], future.result().seconds))
            return answered

    timeline = simulate(Scenario(devices=40, group_size=40, compute_slots=2), "sync", rounds=2)
    workers = LargeWorkers(2, 0.0)
    pipeline = UpdatePipeline(Planned(timeline, None), workers, models(timeline), 0)
    pipeline.start()
    pipeline.updates(slice(0, 80))
    assert max(map(len, workers.portions)) == 2
