"""TorchTask with two workers against a plain PyTorch loop with two threads, model by model, in turns.

    python benchmarks/torch_models.py [--repeats 5] [--rounds 3] [--models cnn resnet8-gn]

A round is 10 devices with 5 SGD steps of batch 64; the loop keeps its images as floats in memory and uses
torch.optim.SGD, as a script for one machine does. ResNet-8 gets images of the shape of CIFAR-10.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from slotwise.base.machine import describe_machine
from slotwise.bench import (
    NETWORK,
    SGD,
    common_samples,
    common_timeline,
    interleaved,
    median_ratio,
    steps_per_second,
)
from slotwise.data import Dataset, load_mnist
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import TrainingStart
from slotwise.learning.local_training import DeviceSamples
from slotwise.torch.networks import resnet8, sequential
from slotwise.torch.task import TorchTask

THREADS = 2
NAMES = ("cnn", "lenet", "2nn", "cnn-dropout", "resnet8-gn", "resnet8-bn")
LENET = Architecture((1, 28, 28), ((6, 5), (16, 5)), (120, 84), 10)
MLP = Architecture((1, 28, 28), (), (200, 200), 10)


def images_like_cifar10(count: int = 6000) -> Dataset:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(count) % 10
    return Dataset("random", images, labels, images[:10], labels[:10], 10, (0.5,) * 3, (0.25,) * 3)


def with_dropout() -> nn.Module:
    layers = list(sequential(NETWORK))
    return nn.Sequential(*layers[:-1], nn.Dropout(0.5), layers[-1])


def loop_rate(module: nn.Module, samples: DeviceSamples, rounds: int) -> float:
    """Return the SGD steps per second of the plain loop."""
    torch.set_num_threads(THREADS)
    dataset, timeline, model = samples.dataset, common_timeline(rounds), copy.deepcopy(module)
    offset, scale = (torch.tensor(n).view(-1, 1, 1) for n in (dataset.offset, dataset.scale))
    images = (torch.from_numpy(np.array(dataset.train_inputs)).float() / 255 - offset) / scale
    labels = torch.from_numpy(dataset.train_targets.astype(np.int64))
    began = time.perf_counter()
    for k in range(rounds):
        start, deltas = parameters_to_vector(model.parameters()).detach(), []
        uplinks = timeline.uplinks(k)
        for device, training in zip(timeline.device[uplinks], timeline.training[uplinks], strict=True):
            local = copy.deepcopy(model)
            optimiser = torch.optim.SGD(local.parameters(), lr=SGD.learning_rate)
            for batch in samples.batches(SGD, TrainingStart(int(device), int(training))):
                rows = torch.from_numpy(batch.astype(np.int64))
                optimiser.zero_grad()
                nn.functional.cross_entropy(local(images[rows]), labels[rows]).backward()
                optimiser.step()
            deltas.append(start - parameters_to_vector(local.parameters()).detach())
        vector_to_parameters(start - torch.stack(deltas).mean(dim=0), model.parameters())
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--models", nargs="+", default=["cnn", "lenet", "2nn", "cnn-dropout", "resnet8-gn", "resnet8-bn"]
    )
    options = parser.parse_args()
    mnist, cifar = common_samples(load_mnist()), common_samples(images_like_cifar10())
    cases = {
        "cnn": (lambda: sequential(NETWORK), mnist, 6 * options.rounds),
        "lenet": (lambda: sequential(LENET), mnist, 6 * options.rounds),
        "2nn": (lambda: sequential(MLP), mnist, 6 * options.rounds),
        "cnn-dropout": (with_dropout, mnist, 6 * options.rounds),
        "resnet8-gn": (lambda: resnet8("group"), cifar, options.rounds),
        "resnet8-bn": (lambda: resnet8("batch"), cifar, options.rounds),
    }
    print(f"{describe_machine()}; SGD steps/s, medians of {options.repeats} turns")
    for name in options.models:
        make, samples, rounds = cases[name]
        task = TorchTask(make, samples, SGD, device="cpu")
        times = 6 if task.trains_together else 1  # compiled, so that both take about as long
        ways = {
            "loop": partial(loop_rate, make(), samples, rounds),
            "task": partial(steps_per_second, common_timeline(times * rounds), task, THREADS),
        }
        rates = interleaved(ways, options.repeats, lambda: None)
        ratio = median_ratio(rates["task"], rates["loop"])
        loop, mine = (statistics.median(rates[way]) for way in ("loop", "task"))
        how = "compiled" if task.trains_together else "torch"
        print(f"{name:12} loop {loop:7.1f}  TorchTask ({how}) {mine:7.1f}  {ratio:5.2f}×", flush=True)


if __name__ == "__main__":
    main()
