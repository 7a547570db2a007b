"""Measurements of `slotwise bench`: ways to do one common job, measured in turns, and their ratios.

The common job is federated averaging on MNIST as every FL simulator can run it: 100 devices, device i with
250 samples of label i mod 10; 10 devices a round, in turn; 5 steps of SGD with batches of 64 and step size
0.01; the mean of their updates. Evaluation is not part of it.

The ways take turns, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.machine import OtherLoad, describe_machine
from slotwise.data import Dataset, load_mnist
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import Evaluation, Task, TrainingStart, train
from slotwise.learning.batching import FixedSteps
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.task import DeviceState, TaskWrapper
from slotwise.scenario import Scenario
from slotwise.schedule import Schedule, Timeline, simulate

CLASSES = 10
DEVICES = 100
GROUP_SIZE = 10
SAMPLES = 250
NETWORK = Architecture(input_shape=(1, 28, 28), convolutions=((10, 5), (20, 5)), hidden=(50,), classes=10)
SGD = LocalTraining(batching=FixedSteps(local_steps=5), batch_size=64, learning_rate=0.01)

SGEMM_SIZE = 1024
SGEMM = "sgemm, all cores (GFLOP/s)"
LOOP = "PyTorch loop, 2 threads"
TORCH_TASK = "TorchTask, 2 workers"
ONE = "fastcnn, 1 worker"
TWO = "fastcnn, 2 workers"
STALE = "fastcnn, 2 workers, async S=1 (staleness 99)"
SYNC = "fastcnn, 2 workers, sync S=100"
MANY = "fastcnn, 2 workers, N=10,000"

# With more load by other programs, ratios mean nothing: the loop needs both cores at the same time.
BUSY = 0.1
RATIOS = ((TWO, LOOP), (TORCH_TASK, LOOP), (TWO, ONE), (STALE, SYNC), (MANY, TWO))

Ways = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Results:
    """Rates of each way by name (SGD steps/s; GFLOP/s for sgemm), one for each repeat.

    Attributes:
        rates: The rates.
        other_load: Share of the cores that other programs used meanwhile; None if unknown.
    """

    rates: dict[str, list[float]]
    other_load: float | None = None

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
    ways, load = _ways(seconds), OtherLoad()
    rates = interleaved(ways, repeats, done)
    return Results(rates, load.share())


def summary(results: Results) -> dict[str, Any]:
    """Return a row for each way, and the ratios that matter."""
    rows: list[dict[str, Any]] = []
    for name, rates in results.rates.items():
        rows.append({"way": name, "rate": statistics.median(rates)})
        if name != SGEMM:
            rows[-1]["against_loop"] = results.ratio(name, LOOP)
            rows[-1]["sgemm_share_dense"] = results.share_of_sgemm(name, NETWORK.dense_multiply_adds)
            rows[-1]["sgemm_share_needed"] = results.share_of_sgemm(name, NETWORK.needed_multiply_adds)
    ratios = {f"{a} / {b}": results.ratio(a, b) for a, b in RATIOS if {a, b} <= results.rates.keys()}
    return {
        "machine": describe_machine(),
        "other_load": results.other_load,
        "ways": rows,
        "ratios": ratios,
    }


def number_of_measurements(repeats: int) -> int:
    """Return the number of calls of ``done``."""
    return (repeats + 1) * (8 if find_spec("torch") else 6)


def _ways(seconds: float) -> Ways:
    dataset = load_mnist()
    samples = common_samples(dataset)
    task = CnnTask(samples, NETWORK, SGD)
    many = CnnTask(common_samples(dataset, 10_000), NETWORK, SGD)
    warm = steps_per_second(common_timeline(4), task, 2)
    rounds = max(10, round(seconds * warm / (GROUP_SIZE * SGD.local_steps)))
    run = steps_per_second
    ways: Ways = {SGEMM: sgemm_rate}
    if find_spec("torch"):
        from slotwise.torch.networks import sequential  # noqa: PLC0415
        from slotwise.torch.task import TorchTask  # noqa: PLC0415

        few, torch_task = max(1, rounds // 8), TorchTask(sequential(NETWORK), samples, SGD, compile=False)
        ways[LOOP] = partial(torch_loop_steps_per_second, samples, few, 2)
        ways[TORCH_TASK] = partial(run, common_timeline(2 * few), torch_task, 2)
    return ways | {
        ONE: partial(run, common_timeline(rounds), task, 1),
        TWO: partial(run, common_timeline(rounds), task, 2),
        STALE: partial(run, common_timeline(10 * rounds, group_size=1, schedule="async"), task, 2),
        SYNC: partial(run, common_timeline(max(1, rounds // 10), group_size=100), task, 2),
        MANY: partial(run, common_timeline(rounds, devices=10_000), many, 2),
    }


def interleaved(ways: Ways, repeats: int, done: Callable[[], None]) -> dict[str, list[float]]:
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


def common_samples(dataset: Dataset, devices: int = DEVICES) -> DeviceSamples:
    """Give device i (from 0) 250 samples of label i mod 10; they overlap once all samples are used."""
    by_label = [np.flatnonzero(dataset.train_targets == label) for label in range(CLASSES)]
    rows = np.empty((devices, SAMPLES), dtype=np.int32)
    for device in range(devices):
        turn, label = divmod(device, CLASSES)
        places = np.arange(turn * SAMPLES, (turn + 1) * SAMPLES) % len(by_label[label])
        rows[device] = by_label[label][places]
    return DeviceSamples(dataset, rows)


def common_timeline(
    rounds: int, devices: int = DEVICES, group_size: int = GROUP_SIZE, schedule: Schedule = "sync"
) -> Timeline:
    """Return the timeline of the common job; devices take turns."""
    scenario = Scenario(devices=devices, group_size=group_size, compute_slots=50)
    return simulate(scenario, schedule, rounds=rounds)


class _Unevaluated(TaskWrapper):
    """A task whose evaluations take no time."""

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:  # noqa: ARG002
        return Evaluation(loss=0.0, accuracy=0.0)


def steps_per_second(timeline: Timeline, task: Task, workers: int) -> float:
    """Return the SGD steps per second of training along the timeline, without evaluations."""
    began = time.perf_counter()
    train(timeline, _Unevaluated(task), workers=workers, evaluate_every=timeline.last_slot)
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)


def torch_loop_steps_per_second(
    samples: DeviceSamples, rounds: int, threads: int, module: Any = None
) -> float:
    """Return the SGD steps per second of a plain PyTorch loop, with ``threads`` per operation.

    ``module`` is the torch.nn.Module to train, by default the network of the common job.
    """
    import torch  # noqa: PLC0415  (not installed everywhere, and slow to import)
    from torch.nn.utils import parameters_to_vector, vector_to_parameters  # noqa: PLC0415

    from slotwise.torch.networks import sequential  # noqa: PLC0415

    torch.set_num_threads(threads)
    dataset, timeline = samples.dataset, common_timeline(rounds)
    offset, scale = (torch.tensor(given).view(1, -1, 1, 1) for given in (dataset.offset, dataset.scale))
    images = (torch.from_numpy(np.array(dataset.train_inputs)).float() / 255 - offset) / scale
    labels = torch.from_numpy(dataset.train_targets.astype(np.int64))
    model = sequential(NETWORK) if module is None else copy.deepcopy(module)

    def local_training(batches: Sequence[NDArray[np.int32]]) -> torch.Tensor:
        local = copy.deepcopy(model)
        optimiser = torch.optim.SGD(local.parameters(), lr=SGD.learning_rate)
        for batch in batches:
            rows = torch.from_numpy(batch.astype(np.int64))
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(local(images[rows]), labels[rows])
            torch.autograd.backward(loss)
            optimiser.step()
        return parameters_to_vector(local.parameters()).detach()

    began = time.perf_counter()
    for k in range(rounds):
        deltas = []
        start = parameters_to_vector(model.parameters()).detach()
        uplinks = timeline.uplinks(k)
        for device, training in zip(timeline.device[uplinks], timeline.training[uplinks], strict=True):
            batches = samples.batches(SGD, TrainingStart(int(device), int(training)))
            deltas.append(start - local_training(batches))
        vector_to_parameters(start - torch.stack(deltas).mean(dim=0), model.parameters())
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)
