"""Built-in models against a plain PyTorch loop with two threads, in one interleaved run.

    python benchmarks/models.py --repeats 5 --seconds 1

The job is that of `slotwise bench`: 100 devices with 250 MNIST samples each, 10 a round, 5 SGD steps of batch
64, the mean of their updates, no evaluation. Both ways of a model take turns. A turn in which other processes
used more than 5 % of the machine is measured again, up to ten times as many turns as asked for; what is left
of other load in the turns that count is printed.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.bench.suite import (
    GROUP_SIZE,
    NETWORK,
    SGD,
    common_samples,
    common_timeline,
    steps_per_second,
    torch_loop_steps_per_second,
)
from slotwise.data import load_mnist
from slotwise.learning import Task
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_training import DeviceSamples
from slotwise.learning.torch_networks import sequential
from slotwise.machine import describe_machine

WORKERS = THREADS = 2
MOST_LOAD = 0.05
MLP = Architecture(input_shape=(1, 28, 28), convolutions=(), hidden=(64,), classes=10)
LOGISTIC = Architecture(input_shape=(1, 28, 28), convolutions=(), hidden=(), classes=10)


class Model(NamedTuple):
    """A task of slotwise, and the module that the plain loop trains on the same samples."""

    name: str
    samples: DeviceSamples
    task: Task
    module: Any


class Turn(NamedTuple):
    """Steps per second of both ways, and the share of the machine that other processes used meanwhile."""

    task: float
    loop: float
    load: float

    @property
    def ratio(self) -> float:
        """Steps per second of the task relative to the loop."""
        return self.task / self.loop


def models() -> list[Model]:
    """Return what is measured. Tasks that compute with PyTorch are further rows."""
    mnist = common_samples(load_mnist())
    networks = {
        "MLP 784-64-10, numba": MLP,
        "logistic regression, numba": LOGISTIC,
        "CNN of the paper, numba": NETWORK,
    }
    return [
        Model(name, mnist, CnnTask(mnist, network, SGD), sequential(network))
        for name, network in networks.items()
    ]


def measure(model: Model, repeats: int, seconds: float) -> list[Turn]:
    """Return the turns that other processes disturbed least, as many as asked for."""

    def task(rounds: int) -> float:
        return steps_per_second(common_timeline(rounds), model.task, WORKERS)

    def loop(rounds: int) -> float:
        return torch_loop_steps_per_second(model.samples, rounds, THREADS, model.module)

    rounds = [fitting_rounds(way, seconds) for way in (task, loop)]
    turns: list[Turn] = []
    while sum(turn.load <= MOST_LOAD for turn in turns) < repeats and len(turns) < 10 * repeats:
        began, own, all_processes = time.perf_counter(), process_seconds(), machine_seconds()
        rates = task(rounds[0]), loop(rounds[1])
        others = machine_seconds() - all_processes - (process_seconds() - own)
        capacity = (time.perf_counter() - began) * (os.cpu_count() or 1)
        turns.append(Turn(*rates, max(0.0, others / capacity)))
    return sorted(turns, key=lambda turn: turn.load)[:repeats]


def fitting_rounds(way: Callable[[int], float], seconds: float) -> int:
    """Warm up, and return how many rounds take about as long as asked for."""
    way(1)
    return max(1, round(seconds * way(4) / (GROUP_SIZE * SGD.local_steps)))


def process_seconds() -> float:
    """Return the processor time of this process."""
    return time.process_time()


def machine_seconds() -> float:
    """Return the time that all processors were busy; Linux only."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    ticks = [int(number) for number in first.split()[1:9]]
    idle, waiting = ticks[3:5]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="turns to take the median of")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of one measurement")
    arguments = parser.parse_args()
    print(f"{describe_machine()}; medians of {arguments.repeats} turns, SGD steps/s")
    print(f"{'model':30} {'slotwise':>9} {'PyTorch loop':>13} {'ratio':>6} {'other load':>11}")
    for model in models():
        turns = measure(model, arguments.repeats, arguments.seconds)
        task, loop, ratio = (
            statistics.median(getattr(turn, name) for turn in turns) for name in ("task", "loop", "ratio")
        )
        load = max(turn.load for turn in turns)
        print(f"{model.name:30} {task:9,.0f} {loop:13,.0f} {ratio:6.1f} {load:11.0%}", flush=True)


if __name__ == "__main__":
    main()
