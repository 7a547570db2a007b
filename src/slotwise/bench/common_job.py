"""The common job: federated averaging on MNIST as every FL simulator can run it.

100 devices, device i with 250 samples of label i mod 10; 10 devices a round, in turn; 5 steps of SGD with
batches of 64 and step size 0.01; the mean of their updates. Evaluation is not part of it.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np

from slotwise.aggregation import Vector
from slotwise.data import Dataset
from slotwise.learning import Evaluation, Task, train
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_sgd import DeviceSamples, LocalSgd
from slotwise.scenario import Scenario
from slotwise.schedule import Schedule, Timeline, simulate

DEVICES = 100
GROUP_SIZE = 10
SAMPLES = 250
NETWORK = Architecture(input_shape=(1, 28, 28), convolutions=((10, 5), (20, 5)), hidden=(50,), classes=10)
SGD = LocalSgd(local_steps=5, batch_size=64, learning_rate=0.01)


def common_samples(dataset: Dataset, devices: int = DEVICES) -> DeviceSamples:
    """Give device i (from 0) 250 samples of label i mod 10; they overlap once all samples are used."""
    by_label = [np.flatnonzero(dataset.train_labels == label) for label in range(dataset.classes)]
    rows = np.empty((devices, SAMPLES), dtype=np.int32)
    for device in range(devices):
        own = by_label[device % dataset.classes]
        first = (device // dataset.classes) * SAMPLES
        rows[device] = own[np.arange(first, first + SAMPLES) % len(own)]
    return DeviceSamples(dataset, rows)


def common_timeline(
    rounds: int, devices: int = DEVICES, group_size: int = GROUP_SIZE, schedule: Schedule = "sync"
) -> Timeline:
    """Return the timeline of the common job; devices take turns."""
    scenario = Scenario(devices=devices, group_size=group_size, compute_slots=50)
    return simulate(scenario, schedule, rounds=rounds)


def steps_per_second(timeline: Timeline, task: Task, workers: int) -> float:
    """Return the SGD steps per second of training along the timeline, without evaluations."""
    began = time.perf_counter()
    train(timeline, _Unevaluated(task), workers=workers)
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)


class _Unevaluated:
    """A task without its evaluation."""

    def __init__(self, task: Task) -> None:
        self.initial_model, self.local_update = task.initial_model, task.local_update
        self.named_arrays = task.named_arrays

    def evaluate(self, model: Vector) -> Evaluation:  # noqa: ARG002
        return Evaluation(loss=0.0, accuracy=0.0)


def torch_loop_steps_per_second(samples: DeviceSamples, rounds: int, threads: int) -> float:
    """Return the SGD steps per second of a plain PyTorch loop, with ``threads`` per operation."""
    import torch  # noqa: PLC0415  (not installed everywhere, and slow to import)
    from torch.nn.utils import parameters_to_vector, vector_to_parameters  # noqa: PLC0415

    from slotwise.learning.torch_task import sequential  # noqa: PLC0415

    torch.set_num_threads(threads)
    dataset, timeline = samples.dataset, common_timeline(rounds)
    images = (torch.from_numpy(np.array(dataset.train_images)).float() / 255 - 0.1307) / 0.3081
    labels = torch.from_numpy(dataset.train_labels.astype(np.int64))
    model = sequential(NETWORK)

    def local_training(batches: np.ndarray[Any, Any]) -> torch.Tensor:
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
        for row in range(timeline.uplinks(k).start, timeline.uplinks(k).stop):
            batches = samples.batches(SGD, int(timeline.device[row]), int(timeline.training[row]))
            deltas.append(start - local_training(batches))
        vector_to_parameters(start - torch.stack(deltas).mean(dim=0), model.parameters())
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)
