"""Synthetic curves, and a task that trains in no time."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.batch.job import Run
from slotwise.learning import Evaluation, Point, Task
from slotwise.paper.evidence import Evidence
from slotwise.paper.results import Curve
from slotwise.runs import RunConfig
from slotwise.schedule import Schedule


class SyntheticResults:
    """Curves that end where a test says; what was not set is missing."""

    def __init__(self, base: RunConfig) -> None:
        self.base = base
        self.curves: dict[str, Curve] = {}

    def curve(self, run: Run) -> Curve:
        return self.curves.get(run.name, Curve(run, "missing"))

    def set(
        self,
        schedule: Schedule,
        size: int,
        *finals: float,
        slots: tuple[int, int] = (50, 1),
        shaking: float = 0.0,
        status: Literal["finished", "interrupted", "diverged"] = "finished",
    ) -> None:
        """One final loss for each seed; ``shaking`` moves the loss up and down by that part of itself."""
        for seed, final in enumerate(finals):
            parameters = replace(
                self.base,
                schedule=schedule,
                group_size=size,
                compute_slots=slots[0],
                link_slots=slots[1],
                seed=seed,
            )
            run = Run.of(parameters)
            self.curves[run.name] = Curve(run, status, curve(parameters, final, shaking))


def curve(parameters: RunConfig, final: float, shaking: float = 0.0) -> tuple[Point, ...]:
    """From ln 10 down to ``final`` in the first half, then level but for the shaking."""
    places = np.linspace(0, parameters.deadline, 101)
    losses = np.interp(places, [0, parameters.deadline / 2], [2.303, final])
    losses = losses * (1 + shaking * (-1.0) ** np.arange(101))
    round_slots = parameters.channel.link_slots * (parameters.channel.group_size + 1)
    return tuple(
        Point(int(slot), int(slot) // round_slots, float(loss), 0.9, 0)
        for slot, loss in zip(places, losses, strict=True)
    )


@pytest.fixture
def synthetic() -> Callable[..., SyntheticResults]:
    def make(data: str = "mnist") -> SyntheticResults:
        return SyntheticResults(RunConfig.from_options({"data": data}))

    return make


@pytest.fixture
def evidence_of() -> Callable[..., Evidence]:
    def make(
        results: SyntheticResults,
        sizes: tuple[int, ...] = (1, 5, 10, 25, 50, 100),
        seeds: int = 1,
        slow_links: tuple[tuple[int, int], ...] = ((50, 5), (10, 5)),
    ) -> Evidence:
        return Evidence(results.base, sizes, slow_links, range(seeds), results)

    return make


class Shrinking:
    """A model of three numbers that every update halves; the loss is its length."""

    def __init__(self) -> None:
        self.updates = 0

    def initial_model(self) -> Vector:
        return np.ones(3, dtype=np.float32)

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        self.updates += 1
        return (model / 2).astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(np.linalg.norm(model)) + 0.1, 0.5)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"model": model}


@pytest.fixture
def shrinking() -> Shrinking:
    return Shrinking()


@pytest.fixture
def always(shrinking: Shrinking) -> Callable[[RunConfig], Task]:
    """Makes the same task for all runs."""
    return lambda _: shrinking
