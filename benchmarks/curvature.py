"""Estimate the smoothness L at single models of a training, in the paper's MNIST case.

The figures in docs/bound.md: how much the estimate depends on the model at which it is taken.

    python benchmarks/curvature.py [--rounds 0 10 30] [--schedule idfl] [--seed 0] [--steps 20]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from slotwise.base.machine import available_cores
from slotwise.learning.engine import Training
from slotwise.learning.estimation import Estimator, SgdTask
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, nargs="+", default=[0, 10, 30], help="models (default 0 10 30)")
    parser.add_argument("--schedule", default="idfl", help="sync, async or idfl (default)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run (default 0)")
    parser.add_argument("--steps", type=int, default=20, help="steps of the power iteration (default 20)")
    args = parser.parse_args()
    config = RunConfig.from_options({"schedule": args.schedule, "seed": args.seed})
    task = cast(SgdTask, build_task(config))
    models = {0: task.initial_model()}
    with Training(config.simulate().first(max(args.rounds)), task, workers=available_cores()) as training:
        models |= {k + 1: training.model for k in training if k + 1 in args.rounds}
    with ThreadPoolExecutor(available_cores()) as pool:
        for rounds in args.rounds:
            estimator = Estimator(task, pool)
            estimator.sharpen(models[rounds], args.steps)
            found, of_devices = estimator.smoothness, estimator.device_smoothness
            print(f"w_{rounds}: L {found:.3g}, of single devices {of_devices:.3g}")


if __name__ == "__main__":
    main()
