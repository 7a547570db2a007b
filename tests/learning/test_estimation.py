"""Constants estimated where they are known: devices hold points x, f_n(w) is the mean of ½‖w − x‖² over them.

Every Hessian is the identity (L = 1 everywhere), ∇f − ∇f_n is the same at every w, and so is the variance of
one sample's gradient, which is that of the points.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import Scenario, simulate
from slotwise.aggregation import Vector
from slotwise.data import Dataset
from slotwise.learning import Evaluation, TrainingStart
from slotwise.learning.estimation import (
    Estimator,
    Measurement,
    measure,
    noise_line,
    one_step,
    spread_rounds,
)
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.theory.bound import Constants

DEVICES, HELD, DIMENSION = 6, 20, 5


class PointsTask:
    def __init__(self, held: int = HELD) -> None:
        draw = np.random.default_rng(0)
        rows = np.arange(DEVICES * held, dtype=np.int32).reshape(DEVICES, held)
        self.points = draw.normal(size=(DEVICES * held, DIMENSION)) + np.arange(DEVICES).repeat(held)[:, None]
        self.dataset = Dataset("points", self.points, self.points, self.points, self.points)
        self.samples = DeviceSamples(self.dataset, rows)
        self.training = LocalTraining(local_steps=5, batch_size=4, learning_rate=0.1)

    def initial_model(self) -> Vector:
        return np.full(DIMENSION, 10.0, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        end = model.astype(np.float64)
        for batch in self.samples.batches(self.training, start):
            end -= self.training.learning_rate * (end - self.points[batch].mean(axis=0))
        return (model - end).astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(0.5 * ((model - self.points) ** 2).sum(axis=1).mean()), 0.0)

    def slope(self, model: Vector) -> Vector:
        return np.asarray(model - self.points.mean(axis=0))

    def device_points(self) -> np.ndarray:
        return self.points.reshape(DEVICES, -1, DIMENSION)

    def heterogeneity(self) -> float:
        apart = self.device_points().mean(axis=1) - self.points.mean(axis=0)
        return float((apart**2).sum(axis=1).max())

    def largest_variance(self) -> float:
        points = self.device_points()
        return float(((points - points.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1).max())


@pytest.fixture
def task() -> PointsTask:
    return PointsTask()


@pytest.fixture
def estimator(task: PointsTask) -> Estimator:
    with ThreadPoolExecutor(2) as pool:
        result = Estimator(task, pool)
        for distance in range(40):
            result.visit(np.full(DIMENSION, distance / 4, dtype=np.float32))
        result.sharpen(task.initial_model())
        return result


def found(estimator: Estimator) -> Constants:
    return estimator.constants(initial_gap=1.0, initial_gradient2=1.0)


def test_a_visit_returns_the_squared_gradient_norm_and_one_step_leaves_the_task_alone(
    task: PointsTask,
) -> None:
    model = task.initial_model()
    with ThreadPoolExecutor(1) as pool:
        square = Estimator(task, pool).visit(model)
    assert square == pytest.approx((task.slope(model) ** 2).sum(), rel=1e-5)
    before = task.training
    variant = one_step(task, batch_size=3, learning_rate=0.5)
    assert task.training is before
    assert variant.training == replace(before, local_steps=1, batch_size=3, learning_rate=0.5)


def test_smoothness_heterogeneity_and_noise_are_found(estimator: Estimator, task: PointsTask) -> None:
    assert found(estimator).smoothness == pytest.approx(1.0, rel=1e-3)
    assert found(estimator).device_smoothness == pytest.approx(1.0, rel=1e-3)
    assert found(estimator).heterogeneity == pytest.approx(task.heterogeneity(), rel=1e-4)
    constants = found(estimator)
    assert constants.noise_growth == pytest.approx(1.0, abs=0.05)
    assert constants.gradient_noise == pytest.approx(task.largest_variance(), rel=0.8)


@pytest.mark.parametrize("held", [9, 20, 200])
def test_the_variance_of_small_batches_is_brought_to_that_of_one_sample(held: int) -> None:
    task = PointsTask(held)
    estimator, model = Estimator(task, cast(Any, None)), task.initial_model()
    full = estimator.full.local_update(model, TrainingStart(1, 0))
    samples = (estimator.sampled.local_update(model, TrainingStart(1, draw)) for draw in range(2000))
    deviations = [((sample - full) ** 2).sum() for sample in samples]
    points = task.device_points()[0]
    variance = ((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert np.mean(deviations) * estimator.variance_factor == pytest.approx(variance, rel=0.1)


def test_a_device_has_no_noise_with_one_sample_and_that_of_all_its_samples() -> None:
    assert not Estimator(PointsTask(1), cast(Any, None)).variance_factor.any()
    task, counts = PointsTask(), [20, 3, 9, 1, 12, 7]
    task.samples = DeviceSamples(
        task.dataset, [np.arange(20 * n, 20 * n + count, dtype=np.int32) for n, count in enumerate(counts)]
    )
    model = task.initial_model()
    estimator = Estimator(task, cast(Any, None))
    for number, rows in enumerate(task.samples.rows, start=1):
        gradient = estimator.full.local_update(model, TrainingStart(number, 0))
        np.testing.assert_allclose(gradient, model - task.points[rows].mean(axis=0), rtol=1e-5)
    with ThreadPoolExecutor(1) as pool:
        visiting = Estimator(task, pool)
        visiting.visit(model)
        visiting.visit(model + 1)
    assert np.isfinite(found(visiting).gradient_noise)


def test_sharpening_finds_the_steepest_of_many_directions() -> None:
    class Valley(PointsTask):
        def local_update(self, model: Vector, start: TrainingStart) -> Vector:
            return np.asarray(np.linspace(0.1, 4.0, 8) * model, dtype=np.float32)

    with ThreadPoolExecutor(1) as pool:
        estimator = Estimator(Valley(), pool)
        estimator.sharpen(np.ones(8, dtype=np.float32), steps=8)
    assert estimator.smoothness == pytest.approx(4.0, rel=0.05)
    assert estimator.smoothness <= 4.001


points = st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=30)


@given(points=points)
def test_the_noise_line_is_above_every_point(points: list[tuple[float, float]]) -> None:
    squares, variances = np.array(points).T
    noise, growth = noise_line(squares, squares + variances)
    assert noise >= 0
    assert growth >= 1
    assert (squares + variances <= (noise + growth * squares) * (1 + 1e-9) + 1e-9).all()


def test_the_noise_line_finds_a_line_or_the_lowest_at_the_mean() -> None:
    squares = np.linspace(0, 10, 20)
    assert noise_line(squares, 2.0 + 3.0 * squares) == pytest.approx((2.0, 3.0), abs=1e-6)
    squares, moments = np.array([0.0, 1.0, 10.0]), np.array([1.0, 9.0, 11.0])
    noise, growth = noise_line(squares, moments)  # the mean is 11/3, under the edge from (1, 9) to (10, 11)
    assert growth == pytest.approx(1.0)  # the edge's slope of 2/9 is below the smallest M
    assert noise == pytest.approx(8.0)


def test_measuring_at_every_round_gives_the_exact_mean(task: PointsTask) -> None:
    timeline = simulate(Scenario(devices=DEVICES, group_size=2, compute_slots=3), "async", rounds=12)
    trained = one_step(task, batch_size=4, learning_rate=0.1)
    result = measure(trained, timeline, points=100)
    assert result.rounds == tuple(range(12))
    models = list(_follow(trained, timeline))
    squares = [float((task.slope(model) ** 2).sum()) for model in models]
    assert result.gradient2 == pytest.approx(squares, rel=1e-4)
    assert result.running_mean()[-1] == pytest.approx(np.mean(squares), rel=1e-4)


def _follow(task: Any, timeline: Any) -> list[Vector]:
    models = [task.initial_model()]
    for k in range(timeline.rounds - 1):
        rows = timeline.uplinks(k)
        columns = (timeline.version[rows], timeline.device[rows], timeline.training[rows])
        updates = [
            task.local_update(models[v], TrainingStart(int(n), int(t)))
            for v, n, t in zip(*columns, strict=True)
        ]
        models.append(models[-1] - np.mean(updates, axis=0))
    return models


def test_the_first_loss_and_gradient_count_and_models_from_elsewhere_for_constants_only(
    task: PointsTask,
) -> None:
    timeline = simulate(Scenario(devices=DEVICES, group_size=6, compute_slots=3), "async", rounds=3)
    result = measure(one_step(task, batch_size=4, learning_rate=0.1), timeline, points=3)
    assert result.constants.initial_gap == pytest.approx(task.evaluate(task.initial_model()).loss)
    assert result.constants.initial_gradient2 == result.gradient2[0]
    trained = one_step(task, batch_size=4, learning_rate=0.1)
    far = np.full(DIMENSION, 1e3, dtype=np.float32)
    with_other, without = (measure(trained, timeline, points=3, others=o) for o in ([far], []))
    assert with_other.gradient2 == without.gradient2
    assert with_other.constants != without.constants


def test_workers_do_not_matter_and_progress_tells_of_every_part(task: PointsTask) -> None:
    timeline = simulate(Scenario(devices=DEVICES, group_size=2, compute_slots=3), "idfl", rounds=10)
    trained = one_step(task, batch_size=4, learning_rate=0.1)
    assert measure(trained, timeline, points=5, workers=3) == measure(trained, timeline, points=5)
    reported: dict[str, list[tuple[int, int]]] = {}

    def progress(stage: str, done: int, total: int) -> None:
        reported.setdefault(stage, []).append((done, total))

    measure(one_step(task, batch_size=4, learning_rate=0.1), timeline, points=5, progress=progress)
    totals = {"training": 10, "gradients": len(spread_rounds(10, 5)), "curvature": 2}
    assert reported == {
        name: [(done, total) for done in range(1, total + 1)] for name, total in totals.items()
    }


@given(rounds=st.integers(1, 100_000), points=st.integers(1, 60))
def test_measured_rounds_go_from_the_first_to_the_last(rounds: int, points: int) -> None:
    chosen = spread_rounds(rounds, points)
    assert chosen == sorted(set(chosen))
    assert (chosen[0], chosen[-1]) == (0, rounds - 1)
    assert len(chosen) <= max(4, points)


def test_the_running_mean_is_linear_between_samples() -> None:
    constants = Constants(
        smoothness=1, gradient_noise=0, noise_growth=1, heterogeneity=0, initial_gap=1, initial_gradient2=1
    )
    mean = Measurement(constants, (0, 2), (4.0, 0.0)).running_mean()
    assert mean.tolist() == pytest.approx([4.0, 3.0, 2.0])
