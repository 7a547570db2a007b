"""Measure the update error ‖w_k − w_{k−d}‖, and mean ‖∇f(w_k)‖² beside Theorem 1, in the paper's MNIST case.

The tables in docs/bound.md, "Measured along trainings". All trainings have the same step and rounds.

    python benchmarks/update_error.py [--rounds 200] [--errors 5 10 25] [--gradients 5 10 50]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import cast

import numpy as np

from slotwise.base.machine import available_cores
from slotwise.learning.engine import Training
from slotwise.learning.estimation import Measurement, SgdTask, measure, one_step
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task
from slotwise.theory import free_delay
from slotwise.theory.bound import Setting, published

SETTLED = 0.5  # share of the rounds that is left out of the update error, in which models move fastest
POINTS = 6  # models at which gradients are measured


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="rounds of each training (default 200)")
    parser.add_argument("--step", type=float, default=0.001, help="step of all trainings (default 0.001)")
    parser.add_argument("--errors", type=int, nargs="*", default=[5, 10, 25], help="group sizes of table 1")
    sizes = [5, 10, 50]
    parser.add_argument("--gradients", type=int, nargs="*", default=sizes, help="group sizes of table 2")
    args = parser.parse_args()
    _print_errors(args.errors, args.rounds, args.step)
    _print_gradients(args.gradients, args.rounds, args.step)


def _print_errors(sizes: Sequence[int], rounds: int, step: float) -> None:
    print("| S | schedule | d | update error | in steps of the model |\n|---|---|---|---|---|")
    for schedule, size in _cases(sizes):
        age, error, moved = update_error(schedule, size, rounds, step)
        print(f"| {size} | {schedule} | {age} | {error:.3g} | {error / moved:.2f} |", flush=True)


def _cases(sizes: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yield schedules with group sizes; without idfl where no delay is free, because it is async there."""
    for size in sizes:
        yield "async", size
        if free_delay(RunConfig.from_options({"group_size": size}).channel) > 0:
            yield "idfl", size


def update_error(schedule: str, size: int, rounds: int, step: float) -> tuple[int, float, float]:
    """Return the staleness d, the mean ‖w_k − w_{k−d}‖, and the mean step of the model ‖w_{k+1} − w_k‖."""
    config = _config(schedule, size, rounds, step)
    timeline = config.simulate().first(rounds)
    age, task = timeline.max_staleness(), build_task(config)
    models = [task.initial_model().astype(np.float64)]
    with Training(timeline, task, workers=available_cores()) as training:
        models += [training.model.astype(np.float64) for _ in training]
    late = range(max(int(SETTLED * rounds), age), rounds)
    error = fmean(float(np.linalg.norm(models[k] - models[k - age])) for k in late)
    return age, error, fmean(float(np.linalg.norm(models[k + 1] - models[k])) for k in late)


def _print_gradients(sizes: Sequence[int], rounds: int, step: float) -> None:
    print("\n| S | schedule | groups, or d* + 1 | mean of ‖∇f‖², measured | published bound | covered |")
    print("|---|---|---|---|---|---|")
    measured = [_measured(schedule, size, rounds, step) for schedule, size in _cases(sizes)]
    # One set of constants for all: the largest L and Γ² met anywhere, as the theorem has it.
    constants = max((found.constants for _, found in measured), key=lambda one: one.smoothness)
    for config, found in measured:
        delay = free_delay(config.channel) if config.schedule == "idfl" else 0
        setting = Setting(
            scenario=config.channel,
            rounds=rounds,
            batch_size=config.training.batch_size,
            learning_rate=step,
            delay=delay,
        )
        bound = published(constants, setting)
        mean = found.running_mean()[-1]
        covered = "yes" if bound.covered else "no"
        names = f"{config.channel.group_size} | {config.schedule} | {setting.staleness + 1}"
        print(f"| {names} | {mean:.3g} | {bound.value:.3g} | {covered} |", flush=True)


def _measured(schedule: str, size: int, rounds: int, step: float) -> tuple[RunConfig, Measurement]:
    config = _config(schedule, size, rounds, step)
    task = one_step(cast("SgdTask", build_task(config)), batch_size=64, learning_rate=step)
    timeline = config.simulate().first(rounds)
    return config, measure(task, timeline, points=POINTS, workers=available_cores())


def _config(schedule: str, size: int, rounds: int, step: float) -> RunConfig:
    own = {"schedule": schedule, "group_size": size, "learning_rate": step, "seed": 0}
    return RunConfig.from_options({**own, "deadline": (rounds + 2) * (size + 1) + 100})


if __name__ == "__main__":
    main()
