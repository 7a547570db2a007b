"""Several ways of doing the same, measured in turns, so that a noisy machine is noisy to all of them."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

SGEMM_SIZE = 1024


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
    """The median of the ratios of measurements taken in the same turn."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def sgemm_rate() -> float:
    """GFLOP/s of a single-precision matrix product with all the threads numpy's BLAS uses."""
    generator = np.random.default_rng(0)
    left, right = (generator.random((SGEMM_SIZE, SGEMM_SIZE), dtype=np.float32) for _ in range(2))
    product = left @ right
    rounds, began = 20, time.perf_counter()
    for _ in range(rounds):
        np.matmul(left, right, out=product)
    return 2 * SGEMM_SIZE**3 * rounds / (time.perf_counter() - began) / 1e9


def machine() -> str:
    """The processor, its cores, and the Python."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
