"""Measurements of `slotwise bench`: ways to do the common job, measured in turns, and their ratios.

The ways take turns, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from slotwise.bench.common_job import (
    NETWORK,
    SGD,
    common_samples,
    common_timeline,
    steps_per_second,
    torch_loop_steps_per_second,
)
from slotwise.data import load_mnist
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_sgd import DeviceSamples
from slotwise.machine import describe_machine

SGEMM_SIZE = 1024
SGEMM = "sgemm, all cores (GFLOP/s)"
LOOP = "PyTorch loop, 2 threads"
TORCH_TASK = "TorchTask, 2 workers"
ONE = "fastcnn, 1 worker"
TWO = "fastcnn, 2 workers"
STALE = "fastcnn, 2 workers, async S=1 (staleness 99)"
SYNC = "fastcnn, 2 workers, sync S=100"
MANY = "fastcnn, 2 workers, N=10,000"

RATIOS = ((TWO, LOOP), (TORCH_TASK, LOOP), (TWO, ONE), (STALE, SYNC), (MANY, TWO))

Ways = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Results:
    """Rates of each way by name (SGD steps/s; GFLOP/s for sgemm), one for each repeat."""

    rates: dict[str, list[float]]

    def rate(self, name: str) -> float:
        """Return the median rate of a way."""
        return statistics.median(self.rates[name])

    def ratio(self, above: str, below: str) -> float | None:
        """Return the median ratio of two ways, if both were measured."""
        if above not in self.rates or below not in self.rates:
            return None
        return median_ratio(self.rates[above], self.rates[below])

    def share_of_sgemm(self, name: str, multiply_adds: int) -> float:
        """Return the arithmetic of a way, 2·multiply-adds per sample, relative to sgemm on all cores."""
        flops = 2 * multiply_adds * SGD.batch_size / 1e9
        return median_ratio([rate * flops for rate in self.rates[name]], self.rates[SGEMM])


def measure_suite(repeats: int, seconds: float, done: Callable[[], None]) -> Results:
    """Measure all ways in turns; a single measurement takes about ``seconds``."""
    return Results(interleaved(_ways(seconds), repeats, done))


def summary(results: Results) -> dict[str, Any]:
    """Return a row for each way, and the ratios that matter."""
    return {
        "machine": describe_machine(),
        "ways": [_row(results, name) for name in results.rates],
        "ratios": {f"{a} / {b}": results.ratio(a, b) for a, b in RATIOS if {a, b} <= results.rates.keys()},
    }


def _row(results: Results, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"way": name, "rate": results.rate(name)}
    if name != SGEMM:
        row["against_loop"] = results.ratio(name, LOOP)
        row["sgemm_share_dense"] = results.share_of_sgemm(name, NETWORK.dense_multiply_adds)
        row["sgemm_share_needed"] = results.share_of_sgemm(name, NETWORK.needed_multiply_adds)
    return row


def number_of_measurements(repeats: int) -> int:
    """Return the number of calls of ``done``."""
    return (repeats + 1) * (8 if find_spec("torch") else 6)


def _ways(seconds: float) -> Ways:
    dataset = load_mnist()
    samples = common_samples(dataset)
    task = CnnTask(samples, NETWORK, SGD)
    many = CnnTask(common_samples(dataset, 10_000), NETWORK, SGD)
    rounds = _rounds_for(seconds, steps_per_second(common_timeline(4), task, 2))
    ways: Ways = {SGEMM: sgemm_rate}
    if find_spec("torch"):
        ways |= _torch_ways(samples, max(1, rounds // 8))
    run = steps_per_second
    ways |= {
        ONE: partial(run, common_timeline(rounds), task, 1),
        TWO: partial(run, common_timeline(rounds), task, 2),
        STALE: partial(run, common_timeline(10 * rounds, group_size=1, schedule="async"), task, 2),
        SYNC: partial(run, common_timeline(max(1, rounds // 10), group_size=100), task, 2),
        MANY: partial(run, common_timeline(rounds, devices=10_000), many, 2),
    }
    return ways


def _torch_ways(samples: DeviceSamples, rounds: int) -> Ways:
    from slotwise.learning.torch_task import TorchTask, sequential  # noqa: PLC0415

    task = TorchTask(sequential(NETWORK), samples, SGD)
    return {
        LOOP: partial(torch_loop_steps_per_second, samples, rounds, 2),
        TORCH_TASK: partial(steps_per_second, common_timeline(2 * rounds), task, 2),
    }


def _rounds_for(seconds: float, rate: float) -> int:
    per_round = common_timeline(1).scenario.group_size * SGD.local_steps
    return max(10, round(seconds * rate / per_round))


def interleaved(
    ways: Mapping[str, Callable[[], float]], repeats: int, done: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Measure every way once to warm up, then all of them in turn, ``repeats`` times."""
    results: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(-1, repeats):
        for name, way in ways.items():
            rate = way()
            if repeat >= 0:
                results[name].append(rate)
            done()
    return results


def median_ratio(above: list[float], below: list[float]) -> float:
    """Return the median of the ratios of measurements taken in the same turn."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def sgemm_rate() -> float:
    """Return the GFLOP/s of a single-precision matrix product with all the threads numpy's BLAS uses."""
    generator = np.random.default_rng(0)
    left, right = (generator.random((SGEMM_SIZE, SGEMM_SIZE), dtype=np.float32) for _ in range(2))
    product = left @ right
    rounds, began = 20, time.perf_counter()
    for _ in range(rounds):
        np.matmul(left, right, out=product)
    return 2 * SGEMM_SIZE**3 * rounds / (time.perf_counter() - began) / 1e9
