"""Threads, processes and Ray actors as workers of one run, in turns on this machine.

    python benchmarks/workers.py [--repeats 5] [--only speed python overhead memory]

Needs slotwise[ray,torch]. A Ray cluster of one node with as many cores as this machine has is started.

- speed: two Ray workers against two threads, ResNet-8 on images like CIFAR-10, async, 10 devices a round;
- python: two processes against two threads for a task in pure Python, which holds the interpreter lock;
- overhead: seconds per update above those of a thread, for a task that computes nothing;
- memory: peak memory of this process with 11 million parameters and staleness 99, above that of the models.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import slotwise as sw
from slotwise.base.machine import available_cores, describe_machine
from slotwise.bench import SGD, common_samples, interleaved, median_ratio
from slotwise.learning import Processes, RayActors, Threads, Training
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.workers import WorkerPlan
from slotwise.torch.networks import resnet8
from torch_models import images_like_cifar10

SMALL, LARGE = 21_840, 11_000_000
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
node = {"num_cpus": int(sys.argv[1]), "include_dashboard": False, "object_store_memory": 4 * 10**9}
cluster = Cluster(initialize_head=True, head_node_args=node)
print("cluster", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class Nothing:
    """Updates of zeros, for the overhead."""

    def __init__(self, size: int) -> None:
        self._zeros = np.zeros(size, np.float32)

    def initial_model(self) -> np.ndarray:
        """Return zeros."""
        return self._zeros.copy()

    def local_update(self, model: np.ndarray, start: sw.TrainingStart) -> np.ndarray:
        """Return a copy of the model, as an update is new memory."""
        del start
        return model.copy()

    def evaluate(self, model: np.ndarray) -> sw.Evaluation:
        """Return zeros."""
        del model
        return sw.Evaluation(0.0, 0.0)


class PurePython(Nothing):
    """About 20 ms of Python for each update."""

    def local_update(self, model: np.ndarray, start: sw.TrainingStart) -> np.ndarray:
        """Count."""
        total = 0
        for number in range(300_000):
            total += number * start.device
        return super().local_update(model, start) + np.float32(total % 7)


class Kept:
    """Workers that stay when a training closes them, so that starting them is not measured."""

    def __init__(self, plan: WorkerPlan, task: Any) -> None:
        self._workers = plan(CheckedTask.of(task))
        while getattr(self._workers, "ready", self._workers.count) < self._workers.count:
            time.sleep(0.05)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workers, name)

    def close(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Close them."""
        self._workers.close()


@contextmanager
def cluster() -> Iterator[str]:
    """Start a Ray cluster; return its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(available_cores())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield next(line.split()[1] for line in process.stdout or () if line.startswith("cluster "))
    finally:
        process.communicate(timeout=120)


def updates_per_second(timeline: sw.Timeline, task: Any, workers: Kept) -> float:
    """Return the updates of a training per second, without evaluation."""
    with Training(timeline, task, workers=lambda _: workers) as training:
        training._due = frozenset()
        began = time.perf_counter()
        for _ in training:
            pass
        return len(timeline) / (time.perf_counter() - began)


def compared(
    timeline: sw.Timeline, task: Any, plans: Mapping[str, WorkerPlan], repeats: int
) -> dict[str, list[float]]:
    """Return the updates per second with different workers, in turns."""
    kept = {name: Kept(plan, task) for name, plan in plans.items()}
    try:
        ways = {name: partial(updates_per_second, timeline, task, each) for name, each in kept.items()}
        return interleaved(ways, repeats, lambda: None)
    finally:
        for each in kept.values():
            each.end()


def timeline_of(rounds: int, group_size: int = 10) -> sw.Timeline:
    """Return an asynchronous schedule of 100 devices."""
    return sw.simulate(
        sw.Scenario(devices=100, group_size=group_size, compute_slots=50), "async", rounds=rounds
    )


def speed(address: str, repeats: int) -> None:
    """Compare Ray with threads."""
    samples = common_samples(images_like_cifar10())
    task = sw.TorchTask(lambda: resnet8("group"), samples, SGD, device="cpu", compile=False)
    plans = {
        "ray": RayActors(address, 2),
        "threads": Threads(2),
        "processes": Processes(2),
    }
    rates = compared(timeline_of(3), task, plans, repeats)
    for way in ("ray", "processes"):
        ratio, rate = median_ratio(rates[way], rates["threads"]), statistics.median(rates[way])
        print(f"ResNet-8, 2 {way}: {5 * rate:.1f} SGD steps/s, {ratio:.2f} of 2 threads", flush=True)


def pure_python(address: str, repeats: int) -> None:
    """Compare processes with threads."""
    del address
    plans = {"processes": Processes(2), "threads": Threads(2)}
    rates = compared(timeline_of(6), PurePython(SMALL), plans, repeats)
    ratio = median_ratio(rates["processes"], rates["threads"])
    print(f"pure Python: 2 processes {ratio:.2f} of 2 threads", flush=True)


def overhead(address: str, repeats: int) -> None:
    """Measure the seconds per update above those of a thread."""
    for size, rounds in ((SMALL, 40), (LARGE, 3)):
        task = Nothing(size)
        plans = {
            "ray": RayActors(address, 1),
            "processes": Processes(1),
            "threads": Threads(1),
        }
        rates = compared(timeline_of(rounds), task, plans, repeats)
        for way in ("ray", "processes"):
            pairs = zip(rates[way], rates["threads"], strict=True)
            found = 1000 * statistics.median(1 / mine - 1 / other for mine, other in pairs)
            print(f"{size:,} parameters: {way} {found:.2f} ms per update above a thread", flush=True)


def memory(address: str, repeats: int) -> None:
    """Measure the peak memory with staleness 99."""
    del repeats
    task, timeline = Nothing(LARGE), timeline_of(220, group_size=1)
    ended, peaks = threading.Event(), [0, 0]

    def watch() -> None:
        while not ended.wait(0.02):
            status = Path("/proc/self/status").read_text()
            sizes = {
                line.split(":")[0]: int(line.split()[1]) for line in status.splitlines() if " kB" in line
            }
            peaks[0] = max(peaks[0], sizes["RssAnon"])
            peaks[1] = max(peaks[1], sizes["VmRSS"])

    workers = Kept(RayActors(address, 2), task)
    thread, most = threading.Thread(target=watch), 0
    thread.start()
    try:
        with Training(timeline, task, workers=lambda _: workers) as training:
            training._due = frozenset()
            for _ in training:
                most = max(most, len(training._models))
    finally:
        ended.set()
        thread.join()
        workers.end()
    models = most * 4 * LARGE / 1e9
    own, resident = (peak * 1024 / 1e9 for peak in peaks)
    print(f"{most} models of {LARGE:,} parameters: {models:.2f} GB; peak of the driver {own:.2f} GB,")
    print(f"{resident:.2f} GB with what it maps of the object store", flush=True)


PARTS: dict[str, Callable[[str, int], None]] = {
    "speed": speed,
    "python": pure_python,
    "overhead": overhead,
    "memory": memory,
}


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    print(f"{describe_machine()}; medians of {options.repeats} turns", flush=True)
    with cluster() as address:
        for name in options.only:
            PARTS[name](address, options.repeats)


if __name__ == "__main__":
    main()
