"""The constants of the convergence analysis, estimated on a real task by sampling its gradients.

What is found is the largest value *met*, so every constant is a lower estimate of the supremum that the
assumptions speak of: an estimate that rules a step size out is right, one that lets it pass may not be.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning.engine import Observer, train
from slotwise.learning.history import History
from slotwise.learning.local_sgd import DeviceSamples, LocalSgd
from slotwise.learning.task import Task
from slotwise.schedule import Timeline
from slotwise.theory.bound import Constants

Floats = NDArray[np.float64]
BATCH = 8  # of a sampled gradient: small, because its noise is what is wanted
DRAWS = 4  # batches per device and model
CURVATURE_STEPS = 4
RELATIVE_STEP = 1e-3  # of a finite difference, against the length of the model


class Gradients(Protocol):
    """The gradients of N devices; safe to ask from several threads."""

    devices: int

    def full(self, model: Vector, device: int) -> Vector:
        """∇f_n(w), over all samples of device n (from 1)."""

    def sampled(self, model: Vector, device: int, draw: int) -> Vector:
        """An unbiased sample of it."""

    variance_factor: float
    """What E‖sampled − full‖² is multiplied with to make it that of a single sample."""


class SgdTask(Task, Protocol):
    """A task of devices that do SGD on their samples: the built-in one, or any torch module."""

    samples: DeviceSamples
    sgd: LocalSgd


class TaskGradients:
    """The gradients of a task: what one SGD step of length 1 takes away from a model."""

    def __init__(self, task: SgdTask) -> None:
        self.devices, held = task.samples.rows.shape
        batch = max(1, min(BATCH, held - 1))
        self._full = one_step(task, batch_size=held, learning_rate=1.0)
        self._part = one_step(task, batch_size=batch, learning_rate=1.0)
        # Batches are drawn without replacement: their variance is (V/b)·(n−b)/(n−1), none if b = n.
        self.variance_factor = batch * (held - 1) / (held - batch) if held > batch else 0.0

    def full(self, model: Vector, device: int) -> Vector:
        """∇f_n(w)."""
        return self._full.local_update(model, device, 0)

    def sampled(self, model: Vector, device: int, draw: int) -> Vector:
        """The gradient of a small batch."""
        return self._part.local_update(model, device, draw)


def one_step(task: SgdTask, *, batch_size: int, learning_rate: float) -> SgdTask:
    """The same task with one gradient per local update, as the theorem has it; data are shared."""
    variant = copy.copy(task)
    variant.sgd = replace(task.sgd, local_steps=1, batch_size=batch_size, learning_rate=learning_rate)
    return variant


class Estimator:
    """Visits models, and remembers the largest of everything."""

    def __init__(self, gradients: Gradients, pool: Executor) -> None:
        self._gradients, self._pool = gradients, pool
        self._draws = 0
        self._squares: list[Floats] = []
        self._moments: list[Floats] = []
        self._last: tuple[Vector, NDArray[np.float32]] | None = None
        self.heterogeneity = self.smoothness = self.device_smoothness = 0.0

    def visit(self, model: Vector) -> float:
        """Sample everything at one model; return ‖∇f(w)‖²."""
        local = self._locals(model)
        if self._last is not None:
            self._compare(*self._last, model, local)
        self._last = model, local
        mean = local.mean(axis=0, dtype=np.float64)
        self.heterogeneity = max(self.heterogeneity, float(_squares(local - mean).max()))
        squares = _squares(local)
        self._squares.append(squares)
        self._moments.append(squares + self._variances(model, local))
        return float(mean @ mean)

    def sharpen(self, model: Vector, steps: int = CURVATURE_STEPS) -> None:
        """Look for the steepest direction at a model: power iteration on differences of gradients."""
        local = self._locals(model)
        direction = base = local.mean(axis=0, dtype=np.float64)
        length = RELATIVE_STEP * max(1.0, float(np.linalg.norm(model)))
        for _ in range(steps):
            if not np.linalg.norm(direction) > 0:
                return
            moved = (model + length * direction / np.linalg.norm(direction)).astype(np.float32)
            there = self._locals(moved)
            self._compare(model, local, moved, there)
            direction = there.mean(axis=0, dtype=np.float64) - base

    def constants(self, *, initial_gap: float, initial_gradient2: float) -> Constants:
        """The largest of everything so far."""
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

    def _locals(self, model: Vector) -> NDArray[np.float32]:
        """∇f_1, …, ∇f_N, one row each."""
        everyone = range(1, self._gradients.devices + 1)
        return np.stack(list(self._pool.map(lambda n: self._gradients.full(model, n), everyone)))

    def _variances(self, model: Vector, local: NDArray[np.float32]) -> Floats:
        """The variance of one sample's gradient, per device; every visit draws anew."""
        draws = range(self._draws, self._draws + DRAWS)
        self._draws += DRAWS

        def deviation(pair: tuple[int, int]) -> float:
            device, draw = pair
            sample = self._gradients.sampled(model, device, draw)
            return float(_squares((sample - local[device - 1])[None])[0])

        pairs = product(range(1, len(local) + 1), draws)
        found = np.array(list(self._pool.map(deviation, pairs))).reshape(len(local), DRAWS)
        return np.asarray(found.mean(axis=1) * self._gradients.variance_factor)

    def _compare(
        self, model: Vector, local: NDArray[np.float32], other: Vector, others: NDArray[np.float32]
    ) -> None:
        """Both smoothness constants from the gradients at two models."""
        distance = float(np.linalg.norm(other.astype(np.float64) - model))
        if distance == 0:
            return
        change = others - local
        of_mean = float(np.linalg.norm(change.mean(axis=0, dtype=np.float64)))
        self.smoothness = max(self.smoothness, of_mean / distance)
        self.device_smoothness = max(self.device_smoothness, float(_squares(change).max() ** 0.5) / distance)


def _squares(rows: NDArray[np.floating]) -> Floats:
    """Squared length of each row, summed in double precision."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def noise_line(squares: Floats, moments: Floats) -> tuple[float, float]:
    """σ² and M: of all lines σ² + M·x above the points (‖∇f_n‖², E‖∇f_n(ζ)‖²) the one lowest at their mean x.

    M is at least 1, because a second moment is at least the square of the mean. The height at the mean is
    convex in M, so it is found by ternary search.
    """
    centre = float(squares.mean())

    def height(growth: float) -> float:
        return float((moments - growth * squares).max()) + growth * centre

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
    """What a stretch of training met: the constants, and ‖∇f(w_k)‖² at some rounds k."""

    constants: Constants
    rounds: tuple[int, ...]
    gradient2: tuple[float, ...]

    def running_mean(self) -> Floats:
        """(1/(K+1))·sum of ‖∇f(w_k)‖² over k = 0..K, for K = 0 to the last round; linear between samples."""
        every = np.arange(self.rounds[-1] + 1)
        return np.asarray(np.cumsum(np.interp(every, self.rounds, self.gradient2)) / (every + 1))


def measure(
    task: SgdTask,
    timeline: Timeline,
    *,
    points: int,
    others: Iterable[Vector] = (),
    workers: int = 1,
    advance: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Train along the timeline and sample the gradients at about ``points`` of its models w_0..w_K.

    ``others`` are models from elsewhere (the end of a finished run) at which the constants must hold as well.
    The task should be one of `one_step`. ``advance`` is told what has been done. The initial gap is f(w_0),
    because no cross-entropy is below 0.
    """
    collector = _Collector(set(spread_rounds(timeline.rounds, points)), advance)
    collector.models[0] = task.initial_model()
    history = train(timeline, task, workers=workers, observer=collector)
    kept = collector.models
    with ThreadPoolExecutor(workers) as pool:
        estimator = Estimator(TaskGradients(task), pool)
        gradient2 = []
        for model in kept.values():
            gradient2.append(estimator.visit(model))
            advance("gradients")
        elsewhere = list(others)
        for model in elsewhere:
            estimator.visit(model)
        for model in (kept[0], kept[max(kept)], *elsewhere):
            estimator.sharpen(model)
            advance("curvature")
    constants = estimator.constants(initial_gap=history.points[0].loss, initial_gradient2=gradient2[0])
    return Measurement(constants, tuple(kept), tuple(gradient2))


def spread_rounds(rounds: int, points: int) -> list[int]:
    """About ``points`` of the rounds 0..rounds−1, half of them spread evenly, half crowded at the start."""
    last = rounds - 1
    even = np.linspace(0, last, max(2, points // 2))
    early = np.geomspace(1, max(1, last), max(2, points - points // 2)) - 1
    return sorted({0, last, *np.rint(even).astype(int).tolist(), *np.rint(early).astype(int).tolist()})


class _Collector(Observer):
    """Keeps the models asked for."""

    def __init__(self, rounds: set[int], advance: Callable[[str], None]) -> None:
        self._rounds, self._advance = rounds, advance
        self._done = 0
        self.models: dict[int, Vector] = {}

    def round_done(self, round_number: int) -> None:
        self._done = round_number + 1
        self._advance("training")

    def wants_checkpoint(self) -> bool:
        return self._done in self._rounds

    def checkpoint(self, history: History) -> None:
        self.models[history.round] = history.model
