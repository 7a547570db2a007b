"""The common job in slotwise: one JSON line, for comparison with other simulators.

    python benchmarks/common_job.py --rounds 40 --threads 2 --data DIR

100 devices, device i with 250 MNIST samples of label i mod 10; 10 a round, 5 SGD steps of batch 64 with step
size 0.01, mean of deltas; no evaluation in the timed part. DIR holds the four gzipped idx files; without it
the MNIST that ships with slotwise is used.
"""

import time

START = time.perf_counter()

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
from importlib.metadata import version  # noqa: E402
from pathlib import Path  # noqa: E402

from slotwise.bench import NETWORK, SGD, common_samples, common_timeline, steps_per_second  # noqa: E402
from slotwise.data import load_mnist  # noqa: E402
from slotwise.learning import TrainingStart  # noqa: E402
from slotwise.learning.cnn_task import CnnTask  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, help="folder with the four gzipped idx files")
    arguments = parser.parse_args()
    dataset = load_mnist(arguments.data)
    task = CnnTask(common_samples(dataset), NETWORK, SGD)
    task.local_update(task.initial_model(), TrainingStart(1, 0))  # loads the compiled kernels
    startup = time.perf_counter() - START
    timeline = common_timeline(arguments.rounds)
    rate = steps_per_second(timeline, task, arguments.threads)
    steps = len(timeline) * SGD.local_steps
    print(
        json.dumps(
            {
                "peer": "slotwise",
                "version": version("slotwise"),
                "rounds": arguments.rounds,
                "sgd_steps": steps,
                "seconds": round(steps / rate, 4),
                "steps_per_s": round(rate, 2),
                "startup_s": round(startup, 3),
                "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
