"""Estimate the constants of the convergence analysis, L, σ², M and Γ², by sampling gradients of a task.

L and Γ² are the largest values found, so they are lower bounds of the suprema in the assumptions: a step size
that they rule out is ruled out, but one that they allow may still be too large. σ² and M are a line above
sampled second moments, no bound in either direction. A network with ReLU or max-pooling has no finite L: the
estimate is the curvature met where it was taken.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning.batching import FixedSteps
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.engine import Training
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.task import Task, TrainingStart, update_of
from slotwise.schedule import Timeline
from slotwise.theory.bound import Constants

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Progress = Callable[[str, int, int], None]  # a stage of the work, how much of it is done, and of how much
BATCH = 8  # samples of a sampled gradient: few, because its noise is to be measured
DRAWS = 4  # batches per device and model
CURVATURE_STEPS = 4
RELATIVE_STEP = 1e-3  # length of a finite difference, relative to the length of the model


class SgdTask(Task):
    """A task whose devices run SGD on their samples: CnnTask and TorchTask."""

    samples: DeviceSamples
    training: LocalTraining


def one_step(task: SgdTask, *, batch_size: int, learning_rate: float) -> SgdTask:
    """Return the task with one gradient per local update, as in the theorem; data are shared."""
    variant = copy.copy(task)
    variant.training = replace(
        task.training,
        batching=FixedSteps(local_steps=1),
        update="sum",
        batch_size=batch_size,
        batch_size_changes=(),
        learning_rate=learning_rate,
    )
    return variant


class Estimator:
    """Samples gradients of a task at models, and keeps the largest value of each constant.

    A gradient is the update of one SGD step of length 1: of all samples of a device, or of a small batch.
    """

    def __init__(self, task: SgdTask, pool: Executor) -> None:
        self._pool = pool
        self._devices = len(task.samples)
        held = np.array([len(rows) for rows in task.samples.rows])
        batch = max(1, min(BATCH, int(held.min()) - 1))
        self.full = one_step(task, batch_size=int(held.max()), learning_rate=1.0)
        self.sampled = one_step(task, batch_size=batch, learning_rate=1.0)
        # Batches are drawn without replacement: their variance is (V/b)·(n−b)/(n−1), none if b = n.
        self.variance_factor = np.where(held > batch, batch * (held - 1) / np.maximum(1, held - batch), 0.0)
        self._squares: list[Floats] = []
        self._moments: list[Floats] = []
        self._last: tuple[Vector, Rows] | None = None
        self.heterogeneity = self.smoothness = self.device_smoothness = 0.0

    def visit(self, model: Vector) -> float:
        """Sample all constants at one model; return ‖∇f(w)‖²."""
        local = self._gradients(self.full, model, 0)
        if self._last is not None:
            self._compare(*self._last, model, local)
        self._last = model, local
        mean = local.mean(axis=0, dtype=np.float64)
        self.heterogeneity = max(self.heterogeneity, float(_squares(local - mean).max()))
        first = DRAWS * len(self._squares)  # every visit draws other batches
        draws = (self._gradients(self.sampled, model, first + draw) for draw in range(DRAWS))
        deviations = np.mean([_squares(drawn - local) for drawn in draws], axis=0)
        self._squares.append(_squares(local))
        self._moments.append(self._squares[-1] + deviations * self.variance_factor)
        return float(mean @ mean)

    def sharpen(self, model: Vector, steps: int = CURVATURE_STEPS) -> None:
        """Search for the steepest direction at a model: power iteration on differences of gradients."""
        local = self._gradients(self.full, model, 0)
        direction = base = local.mean(axis=0, dtype=np.float64)
        length = RELATIVE_STEP * max(1.0, float(np.linalg.norm(model)))
        for _ in range(steps):
            if not np.linalg.norm(direction) > 0:
                return
            moved = (model + length * direction / np.linalg.norm(direction)).astype(np.float32)
            there = self._gradients(self.full, moved, 0)
            self._compare(model, local, moved, there)
            direction = there.mean(axis=0, dtype=np.float64) - base

    def constants(self, *, initial_gap: float, initial_gradient2: float) -> Constants:
        """Return the largest values so far."""
        noise, growth = noise_line(np.concatenate(self._squares), np.concatenate(self._moments))
        return Constants(
            smoothness=self.smoothness,
            device_smoothness=self.device_smoothness,
            gradient_noise=noise,
            noise_growth=growth,
            heterogeneity=self.heterogeneity,
            initial_gap=initial_gap,
            initial_gradient2=initial_gradient2,
        )

    def _gradients(self, task: SgdTask, model: Vector, draw: int) -> Rows:
        """Return ∇f_1, …, ∇f_N, one row each."""
        everyone = range(1, self._devices + 1)
        return np.stack(
            list(
                self._pool.map(
                    lambda n: update_of(task.local_update(model, TrainingStart(n, draw))), everyone
                )
            )
        )

    def _compare(self, model: Vector, local: Rows, other: Vector, others: Rows) -> None:
        """Update both smoothness constants from the gradients at two models."""
        distance = float(np.linalg.norm(other.astype(np.float64) - model))
        if distance > 0:
            change = others - local
            of_mean = float(np.linalg.norm(change.mean(axis=0, dtype=np.float64)))
            of_devices = float(_squares(change).max() ** 0.5)
            self.smoothness = max(self.smoothness, of_mean / distance)
            self.device_smoothness = max(self.device_smoothness, of_devices / distance)


def _squares(rows: NDArray[np.floating]) -> Floats:
    """Return the squared length of each row, summed in double precision."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def noise_line(squares: Floats, moments: Floats) -> tuple[float, float]:
    """Return σ² and M: the line σ² + M·x above all points (‖∇f_n‖², E‖∇f_n(ζ)‖²), lowest at their mean.

    M is at least 1, because a second moment is at least the square of the mean. The height at the mean is
    convex in M, so it is found by ternary search.
    """

    def height(growth: float) -> float:
        return float((moments - growth * squares).max()) + growth * float(squares.mean())

    low, high = 1.0, 2.0
    while high < 1e9 and height(2 * high) < height(high):
        high *= 2
    high *= 2
    for _ in range(100):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if height(left) <= height(right) else (left, high)
    return max(0.0, float((moments - low * squares).max())), low


@dataclass(frozen=True)
class Measurement:
    """Constants estimated along a training, and ‖∇f(w_k)‖² at some rounds k."""

    constants: Constants
    rounds: tuple[int, ...]
    gradient2: tuple[float, ...]

    def running_mean(self) -> Floats:
        """Return (1/(K+1))·Σ_{k≤K} ‖∇f(w_k)‖² for K = 0 to the last round; linear between samples."""
        every = np.arange(self.rounds[-1] + 1)
        return np.asarray(np.cumsum(np.interp(every, self.rounds, self.gradient2)) / (every + 1))


def measure(
    task: SgdTask,
    timeline: Timeline,
    *,
    points: int,
    others: Sequence[Vector] = (),
    workers: int = 1,
    progress: Progress = lambda *_: None,
) -> Measurement:
    """Train along the timeline and sample the gradients at about ``points`` of its models w_0..w_K.

    ``others`` are models from elsewhere (the end of a finished run) at which the constants must hold as well.
    The task should be one of `one_step`. ``progress`` is told of the stages training, gradients and
    curvature. The initial gap is f(w_0), because no cross-entropy is below 0.
    """
    wanted = spread_rounds(timeline.rounds, points)
    models = {0: CheckedTask.of(task).initial_model()}
    with Training(timeline, task, workers=workers) as training:
        for k in training:
            if k + 1 in wanted:
                models[k + 1] = training.model
            progress("training", k + 1, timeline.rounds)
        initial_gap = training.history().points[0].loss
    with ThreadPoolExecutor(workers) as pool:
        estimator = Estimator(task, pool)
        gradient2 = []
        for model in models.values():
            gradient2.append(estimator.visit(model))
            progress("gradients", len(gradient2), len(models))
        for model in others:
            estimator.visit(model)
        steepest = (models[0], models[max(models)], *others)
        for number, model in enumerate(steepest, start=1):
            estimator.sharpen(model)
            progress("curvature", number, len(steepest))
    constants = estimator.constants(initial_gap=initial_gap, initial_gradient2=gradient2[0])
    return Measurement(constants, tuple(models), tuple(gradient2))


def spread_rounds(rounds: int, points: int) -> list[int]:
    """Return about ``points`` of the rounds 0..rounds−1, half of them spaced evenly, half near the start."""
    last = rounds - 1
    even = np.linspace(0, last, max(2, points // 2))
    early = np.geomspace(1, max(1, last), max(2, points - points // 2)) - 1
    return sorted({0, last, *np.rint([*even, *early]).astype(int).tolist()})
