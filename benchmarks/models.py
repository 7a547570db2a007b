"""Built-in models against a plain PyTorch loop, and with quantisation or attackers against without.

    python benchmarks/models.py --repeats 5 --seconds 1 --only cnn

The job is that of `slotwise bench`: 100 devices with 250 MNIST samples each, 10 a round, 5 SGD steps of batch
64, the mean of their updates, no evaluation. Everything uses two threads. Both ways of a row take
turns. A turn in which other processes used more than 5 % of the machine is measured again, up to ten times as
many turns as asked for; what is left of other load in the turns that count is printed.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.base.machine import describe_machine
from slotwise.bench import (
    DEVICES,
    GROUP_SIZE,
    NETWORK,
    SGD,
    common_samples,
    common_timeline,
    steps_per_second,
    torch_loop_steps_per_second,
)
from slotwise.data import load_mnist
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import Task
from slotwise.learning.attack import Attacked, Noise, SignFlip
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples
from slotwise.learning.quantisation import Quantised
from slotwise.torch.networks import sequential

WORKERS = THREADS = 2
MOST_LOAD = 0.05
NETWORKS = {
    "mlp": Architecture(input_shape=(1, 28, 28), convolutions=(), hidden=(64,), classes=10),
    "logistic": Architecture(input_shape=(1, 28, 28), convolutions=(), hidden=(), classes=10),
    "cnn": NETWORK,
    "mcmahan": Architecture((1, 28, 28), ((32, 5), (64, 5)), (512,), 10),
    "2nn": Architecture((1, 28, 28), (), (200, 200), 10),
}
Way = Callable[[int], float]  # SGD steps per second of a training of so many rounds


class Row(NamedTuple):
    """Two ways of training that are compared."""

    name: str
    way: Way
    other_name: str
    other: Way


class Turn(NamedTuple):
    """Steps per second of both ways, and the share of the machine that other processes used meanwhile."""

    rate: float
    other: float
    load: float

    @property
    def ratio(self) -> float:
        """Steps per second of the first way relative to the other."""
        return self.rate / self.other


def rows() -> list[Row]:
    """Return what is measured. Tasks that compute with PyTorch are in torch_models.py."""
    samples = common_samples(load_mnist())
    tasks = {name: CnnTask(samples, network, SGD) for name, network in NETWORKS.items()}
    loops = [
        Row(name, training(task), "PyTorch loop", loop(samples, sequential(NETWORKS[name])))
        for name, task in tasks.items()
    ]
    changed = [
        Row(f"{name}, {how}", training(other), "without", training(task))
        for name, task in tasks.items()
        for how, other in {
            "8 bits": Quantised(task, 8),
            "sign-flip": Attacked(task, SignFlip(scale=1.0), DEVICES),
            "noise": Attacked(task, Noise(scale=1.0), DEVICES),
            "sign-flip, 8 bits": Quantised(Attacked(task, SignFlip(scale=1.0), DEVICES), 8),
        }.items()
    ]
    return loops + changed


def training(task: Task) -> Way:
    """Return the training of a task by slotwise."""
    return lambda rounds: steps_per_second(common_timeline(rounds), task, WORKERS)


def loop(samples: DeviceSamples, module: Any) -> Way:
    """Return the training of a module by a plain PyTorch loop."""
    return lambda rounds: torch_loop_steps_per_second(samples, rounds, THREADS, module)


def measure(row: Row, repeats: int, seconds: float) -> list[Turn]:
    """Return the turns that other processes disturbed least, as many as asked for."""
    rounds = [fitting_rounds(way, seconds) for way in (row.way, row.other)]
    turns: list[Turn] = []
    while sum(turn.load <= MOST_LOAD for turn in turns) < repeats and len(turns) < 10 * repeats:
        began, own, all_processes = time.perf_counter(), process_seconds(), machine_seconds()
        rates = row.way(rounds[0]), row.other(rounds[1])
        others = machine_seconds() - all_processes - (process_seconds() - own)
        capacity = (time.perf_counter() - began) * (os.cpu_count() or 1)
        turns.append(Turn(*rates, max(0.0, others / capacity)))
    return sorted(turns, key=lambda turn: turn.load)[:repeats]


def fitting_rounds(way: Way, seconds: float) -> int:
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
    parser.add_argument("--only", default="", help="rows whose names begin with this")
    arguments = parser.parse_args()
    print(f"{describe_machine()}; medians of {arguments.repeats} turns, SGD steps/s")
    print(f"{'training':30} {'steps/s':>9} {'compared with':>22} {'ratio':>6} {'other load':>11}")
    for row in rows():
        if not row.name.startswith(arguments.only):
            continue
        turns = measure(row, arguments.repeats, arguments.seconds)
        rate, other, ratio = (
            statistics.median(getattr(turn, name) for turn in turns) for name in ("rate", "other", "ratio")
        )
        load, compared = max(turn.load for turn in turns), f"{row.other_name} {other:,.0f}"
        print(f"{row.name:30} {rate:9,.0f} {compared:>22} {ratio:6.2f} {load:11.0%}", flush=True)


if __name__ == "__main__":
    main()
