"""Where the CPU time of whole jobs of `slotwise reproduce` goes: how much of it is not in the kernels.

    python benchmarks/whole_job.py [--studies mnist cifar10] [--deadline 5000] [--runs 4] [--workers 2]

One seed of each run of a study is trained in a folder, with its evaluations, checkpoints and files, in this
process. Times are CPU seconds of the threads inside the kernels, and of the whole process for the rest; so
other programs on the machine hardly count. Kernels are loaded before. CIFAR-10 has to be fetched once
(`slotwise data fetch cifar10`); studies without their data are left out.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import slotwise as sw
from slotwise.base.machine import describe_machine
from slotwise.batch.jobs import can_train
from slotwise.fastcnn.kernels import ConvolutionKernels
from slotwise.learning import engine
from slotwise.learning.engine import evaluation_interval
from slotwise.paper.experiments import PAPER, all_runs, selected
from slotwise.runs.checkpoints import Checkpoints

PARTS: dict[str, tuple[Any, str]] = {  # and the functions that take their time
    "training": (ConvolutionKernels, "train_each"),
    "evaluation": (ConvolutionKernels, "evaluate"),
    "aggregation": (engine, "next_model"),
    "checkpoints": (Checkpoints, "save"),
}


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Count the CPU seconds of the threads inside kernels, rule and checkpoints."""
    seconds, lock = Counter[str](), threading.Lock()

    def timed(inner: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            began = time.thread_time()
            try:
                return inner(*args, **options)
            finally:
                with lock:
                    seconds[part] += time.thread_time() - began

        return call

    with ExitStack() as stack:
        for part, (owner, name) in PARTS.items():
            inner = getattr(owner, name)
            setattr(owner, name, timed(inner, part))
            stack.callback(setattr, owner, name, inner)
        yield seconds


def measure(study: str, deadline: int, most: int | None, workers: int) -> dict[str, float]:
    """Return the CPU seconds of each part of a study, and of all."""
    runs = [run for run in all_runs(selected(PAPER, [study]), [0]) if can_train(run)][:most]
    configs = [shortened(run.config, deadline) for run in runs]
    with tempfile.TemporaryDirectory() as folder, watched() as seconds:
        for config in configs[:1]:  # kernels are compiled or loaded here
            sw.run(config.with_options(deadline=200), out=Path(folder) / "first", workers=workers)
        seconds.clear()
        began = time.process_time()
        for number, config in enumerate(configs):
            sw.run(config, out=Path(folder) / str(number), workers=workers)
        return {"all": time.process_time() - began, **seconds, "runs": len(runs)}


def shortened(config: sw.RunConfig, deadline: int) -> sw.RunConfig:
    """Return a run that ends earlier and is evaluated as often as before in as many slots."""
    every = config.evaluate_every or evaluation_interval(config.deadline)
    return config.with_options(deadline=deadline, evaluate_every=every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", nargs="+", default=["mnist", "cifar10"])
    parser.add_argument("--deadline", type=int, default=5000, help="T of each run, slots")
    parser.add_argument("--runs", type=int, help="of each study, the first of them; default: all")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    print(f"{describe_machine()}; T={given.deadline:,}, {given.workers} workers, one seed\n")
    print(
        "| study | runs | CPU s | training | evaluation | aggregation | checkpoints | other | not training |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for study in given.studies:
        seconds = measure(study, given.deadline, given.runs, given.workers)
        if not seconds["runs"]:
            print(f"| {study} | 0: no data | | | | | | | |")
            continue
        shares = [seconds.get(part, 0.0) / seconds["all"] for part in PARTS]
        cells = [f"{share:.1%}" for share in (*shares, 1 - sum(shares), 1 - sum(shares[:2]))]
        print(f"| {study} | {seconds['runs']} | {seconds['all']:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
