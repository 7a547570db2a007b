"""Cost of a round on a Ray cluster: a model with measured constants, and what it predicts for many nodes.

    python benchmarks/scale.py [--repeats 3] [--link-gbit 10]

Needs slotwise[ray,torch]. The driver's CPU seconds are measured with trainings that compute nothing, for
models of different sizes and for 1 and 20 updates a round, and fitted by

    seconds of a round = put(M) + S · update(M),   each = a + b · M,   M = bytes of the model

in which put is the copy of the new model into the object store, and update is the receipt of an update and
its share of the aggregation. A prediction is the slowest of: workers (and no more than (d+1)·S trainings
exist at once), the driver, and the driver's network link, over which go an update for each training and a
model for each node that needs it. With d = 0 a round also waits for its slowest part.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import NamedTuple

import numpy as np

import slotwise as sw
from slotwise.base.machine import describe_machine
from slotwise.bench import SGD, common_samples
from slotwise.learning import Training
from slotwise.torch.networks import resnet8
from torch_models import images_like_cifar10
from workers import Kept, Nothing, cluster

SIZES = (21_840, 250_000, 2_000_000, 11_000_000)  # parameters
CORES = 2  # of a node, as here


class Line(NamedTuple):
    """A cost in seconds, a + b · bytes."""

    fixed: float
    per_byte: float

    def of(self, size: float) -> float:
        """Return the cost for a model of so many bytes."""
        return self.fixed + self.per_byte * size


class Job(NamedTuple):
    """What is trained: bytes of the model, and seconds of one local training on one core."""

    name: str
    size: float
    seconds: float


def driver_seconds(address: str, parameters: int, group_size: int) -> float:
    """Return the CPU seconds of the driver for one round."""
    rounds = max(3, min(200, 60_000_000 // parameters // group_size))
    scenario = sw.Scenario(devices=20, group_size=group_size, compute_slots=10)
    timeline, task = sw.simulate(scenario, "async", rounds=rounds), Nothing(parameters)
    workers = Kept(sw.learning.RayActors(address, 2), task)
    try:
        with Training(timeline, task, workers=lambda _: workers) as training:
            training._due = frozenset()
            training.advance()
            began = time.process_time()
            for _ in training:
                pass
            return (time.process_time() - began) / (rounds - 1)
    finally:
        workers.end()


def fit(address: str, repeats: int) -> tuple[Line, Line]:
    """Return the costs of a new model and of an update."""
    rows, found = [], []
    for parameters in SIZES:
        for group_size in (1, 20):
            measured = [driver_seconds(address, parameters, group_size) for _ in range(repeats)]
            seconds, size = statistics.median(measured), 4.0 * parameters
            print(
                f"{parameters:>12,} parameters, S={group_size:<3} {1000 * seconds:9.2f} ms a round",
                flush=True,
            )
            weight = 1 / seconds  # relative errors count, not those of the largest model only
            rows.append(weight * np.array([1, size, group_size, group_size * size]))
            found.append(1.0)
    a, b, c, d = np.maximum(0, np.linalg.lstsq(np.array(rows), np.array(found), rcond=None)[0])
    return Line(a, b), Line(c, d)


def predicted(
    job: Job, nodes: int, devices: int, group_size: int, staleness: int, put: Line, update: Line, link: float
) -> tuple[float, str]:
    """Return updates per second, and what limits them."""
    workers, at_once = CORES * nodes, min(devices, (staleness + 1) * group_size)
    busy, receivers = min(workers, at_once), min(nodes, group_size)
    training = group_size * job.seconds / busy
    if staleness == 0:  # a round ends with its slowest worker
        training = -(-group_size // workers) * job.seconds
    driver = put.of(job.size) + group_size * update.of(job.size)
    network = (group_size + receivers) * job.size / link
    parts = {"driver": driver, "network": network}
    parts["trainings" if workers <= at_once else "no more trainings at once"] = training
    if staleness == 0:  # nothing overlaps the end of a round but the first updates of it
        return group_size / (training + max(driver, network)), max(parts, key=lambda part: parts[part])
    limit = max(parts, key=lambda part: parts[part])
    return group_size / parts[limit], limit


def main() -> None:
    """Measure, fit and predict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--link-gbit", type=float, default=10.0, help="network link of the driver")
    options = parser.parse_args()
    print(f"{describe_machine()}; medians of {options.repeats}")
    samples = common_samples(images_like_cifar10())
    task = sw.TorchTask(lambda: resnet8("group"), samples, SGD, device="cpu", compile=False)
    model = task.initial_model()
    task.local_update(model, sw.TrainingStart(1, 0))
    began = time.perf_counter()
    for device in range(1, 4):
        task.local_update(model, sw.TrainingStart(device, 0))
    seconds = (time.perf_counter() - began) / 3
    jobs = [Job("ResNet-8", 4.0 * model.size, seconds), Job("11 million parameters, 20 s", 4.4e7, 20.0)]
    with cluster() as address:
        put, update = fit(address, options.repeats)
    for name, line in (("put", put), ("update", update)):
        print(f"{name}: {1000 * line.fixed:.2f} ms + {1e9 * line.per_byte:.2f} ms per million bytes")
    cases, link = [(100, 1, 99), (100, 100, 0), (10_000, 100, 99)], options.link_gbit * 1.25e8
    for job in jobs:
        print(f"{job.name}: {job.size / 1e6:.2f} MB, {job.seconds:.2f} s a training; updates/s:")
        for devices, group_size, staleness in cases:
            print(f"  N={devices:,} S={group_size} d={staleness}:", end=" ")
            for nodes in (1, 10, 100, 1000):
                found = predicted(job, nodes, devices, group_size, staleness, put, update, link)
                print(f"{nodes} nodes {found[0]:.1f} ({found[1]})", end=", ")
            driver = group_size / (put.of(job.size) + group_size * update.of(job.size))
            network = group_size / ((group_size + min(1000, group_size)) * job.size / link)
            print(f"driver at most {driver:.0f}, network at most {network:.0f}")


if __name__ == "__main__":
    main()
