"""Overhead of a sweep: CPU time against the same runs in sequence, and the overhead of Ray.

    python benchmarks/sweep.py [--points 8] [--workers 2] [--repeats 2] [--ray auto|ADDRESS]

Equal runs, as different seeds of one configuration, are trained by `slotwise sweep` and, in turns with it,
one after another in one process that loads everything once. The time of the sweep includes its processes,
tables and figure. With --ray, many tiny runs are trained by local processes and on the cluster in turns; give
the cluster as many CPUs as --workers, for example with `ray start --head --num-cpus 2`.

Fails (exit code 1) if the sweep takes more than 1.15 times the CPU time of the sequence.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

LIMIT = 1.15
EQUAL = """
devices = 20
group-size = 5
compute-slots = 10
deadline = {deadline}
local-steps = 5
evaluate-every = 1000
"""
TINY = """
devices = 4
group-size = 2
compute-slots = 4
deadline = 60
samples-per-device = 20
local-steps = 1
batch-size = 8
channels = [2]
hidden = []
evaluate-every = 60
"""
COMMAND = (sys.executable, "-c", "from slotwise.cli import main; main()")
TINY_POINTS = 40


class Cost(NamedTuple):
    """CPU and wall time in seconds."""

    cpu: float
    wall: float


def cost(arguments: Sequence[str]) -> Cost:
    """Return the cost of a command and all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return Cost(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall)


def sweep_cost(text: str, points: int, workers: int, *more: str) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        grid = written(Path(name), text, points)
        out = str(Path(name) / "out")
        return cost([*COMMAND, "sweep", str(grid), "--out", out, "--workers", str(workers), "--quiet", *more])


def sequence_cost(text: str, points: int, workers: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        grid = written(Path(name), text, points)
        return cost([sys.executable, __file__, "--sequence", str(grid), "--workers", str(workers)])


def written(folder: Path, text: str, points: int) -> Path:
    grid = folder / "grid.toml"
    grid.write_text(f"{text}\nseeds = {list(range(points))}\n")
    return grid


def train_in_sequence(grid: Path, workers: int) -> None:
    from slotwise.batch import BatchFolder, BatchSpec, SerialExecutor, run_jobs, unfinished

    folder = BatchFolder(grid.parent / "sequence")
    jobs = unfinished(folder, BatchSpec.read(grid).runs)
    assert run_jobs(folder, jobs, SerialExecutor(workers)) == ()


def compare_with_sequence(points: int, deadline: int, workers: int, repeats: int) -> float:
    text = EQUAL.format(deadline=deadline)
    sequence_cost(EQUAL.format(deadline=100), 1, workers)  # compiles the kernels, if that was not done before
    ratios = []
    for turn in range(repeats):
        sequence, sweep = sequence_cost(text, points, workers), sweep_cost(text, points, workers)
        ratios.append(sweep.cpu / sequence.cpu)
        print(
            f"turn {turn + 1}: {points} points on {workers} cores, CPU time: "
            f"in sequence {sequence.cpu:.1f} s, sweep {sweep.cpu:.1f} s, ratio {ratios[-1]:.3f}  "
            f"(wall {sequence.wall:.1f} s and {sweep.wall:.1f} s)",
            flush=True,
        )
    return statistics.median(ratios)


def compare_with_ray(address: str, workers: int, repeats: int) -> None:
    def local(points: int) -> float:
        return sweep_cost(TINY, points, workers).wall

    def remote(points: int) -> float:
        return sweep_cost(TINY, points, workers, "--ray", address).wall

    local(workers)
    remote(workers)
    turns = [(per_point(local, workers), per_point(remote, workers)) for _ in range(repeats)]
    (start, each), (ray_start, ray_each) = (
        [statistics.median(turn[way][figure] for turn in turns) for figure in (0, 1)] for way in (0, 1)
    )
    print(f"processes:  {start:.2f} s to start and end, then {each * 1000:.0f} ms a tiny run")
    print(f"Ray:        {ray_start:.2f} s to start and end, then {ray_each * 1000:.0f} ms a tiny run")
    print(f"overhead of Ray: {(ray_each - each) * 1000:.0f} ms a run, {ray_start - start:.2f} s once")


def per_point(wall: Callable[[int], float], workers: int) -> tuple[float, float]:
    """Return the seconds for one tiny run per worker, and for each that is added to them."""
    few, many = wall(workers), wall(TINY_POINTS)
    return few, (many - few) / (TINY_POINTS - workers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=8)
    parser.add_argument("--deadline", type=int, default=1000, help="slots of a point (default 1000)")
    parser.add_argument("--workers", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--ray", help="also measure on this cluster: auto or HOST:PORT")
    parser.add_argument("--sequence", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sequence:
        train_in_sequence(arguments.sequence, arguments.workers)
        return
    ratio = compare_with_sequence(arguments.points, arguments.deadline, arguments.workers, arguments.repeats)
    print(f"CPU time of the sweep against the sequence: {ratio:.3f} (at most {LIMIT})")
    if arguments.ray:
        compare_with_ray(arguments.ray, arguments.workers, arguments.repeats)
    if ratio > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
