"""The common job: federated averaging on MNIST as every FL simulator can run it.

100 devices, device i with 250 samples of label i mod 10; 10 of them a round, in turn; 5 steps of SGD with
batches of 64 and step size 0.01; the mean of their deltas. Evaluation is not part of it.
"""

from __future__ import annotations

import time

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
    """Device i (from 0) holds 250 samples of label i mod 10; they overlap once the data is used up."""
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
    """The rounds of the common job; in turn is round-robin."""
    scenario = Scenario(devices=devices, group_size=group_size, compute_slots=50)
    return simulate(scenario, schedule, rounds=rounds)


def steps_per_second(timeline: Timeline, task: Task, workers: int) -> float:
    """SGD steps per second of training along the timeline, evaluations left out."""
    began = time.perf_counter()
    train(timeline, _Unevaluated(task), workers=workers)
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)


class _Unevaluated:
    """A task whose evaluation costs nothing and says nothing."""

    def __init__(self, task: Task) -> None:
        self.initial_model, self.local_update = task.initial_model, task.local_update
        self.named_arrays = task.named_arrays

    def evaluate(self, model: Vector) -> Evaluation:  # noqa: ARG002
        return Evaluation(loss=0.0, accuracy=0.0)
