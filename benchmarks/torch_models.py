"""TorchTask with two workers against a plain PyTorch loop with two threads, model by model, in turns.

    python benchmarks/torch_models.py [--repeats 5] [--rounds 3] [--models cnn resnet8-gn] [--cpu-time]

A round is 10 devices with 5 SGD steps of batch 64; the loop keeps its images as floats in memory and uses
torch.optim.SGD, as a script for one machine does. Rows marked "cl" use images of the shape of CIFAR-10, and a
loop in channels-last memory, which is faster there. --cpu-time compares one worker with one thread, by the
smallest processor time of all turns, which says something on a busy machine too.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

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
LENET = Architecture((1, 28, 28), ((6, 5), (16, 5)), (120, 84), 10)
MLP = Architecture((1, 28, 28), (), (200, 200), 10)
MCMAHAN = Architecture((1, 28, 28), ((32, 5), (64, 5)), (512,), 10)


def images_like_cifar10(count: int = 6000) -> Dataset:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(count) % 10
    return Dataset("random", images, labels, images[:10], labels[:10], 10, (0.5,) * 3, (0.25,) * 3)


def with_dropout() -> nn.Module:
    layers = list(sequential(NETWORK))
    return nn.Sequential(*layers[:-1], nn.Dropout(0.5), layers[-1])


def leaf() -> nn.Module:
    """Return the CNN of LEAF for FEMNIST, with ten classes."""
    layers = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(3136, 2048), nn.ReLU(), nn.Linear(2048, 10))


def vgg() -> nn.Module:
    """Return a small VGG: 3x3 convolutions with padding."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] * (inputs == outputs)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 128), nn.ReLU(), nn.Linear(128, 10))


class Case(NamedTuple):
    """A module, its samples, how many times the usual number of rounds the loop does, and its memory."""

    make: Callable[[], nn.Module]
    samples: DeviceSamples
    times: int
    channels_last: bool


def as_vector(module: nn.Module) -> torch.Tensor:
    """Return the parameters of a module, which may be in channels-last memory."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


@torch.no_grad()
def load_vector(module: nn.Module, vector: torch.Tensor) -> None:
    """Set the parameters of a module, which stay in their memory."""
    parameters = list(module.parameters())
    parts = vector.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view(parameter.shape))


def loop_rate(case: Case, module: nn.Module, rounds: int, threads: int) -> float:
    """Return the SGD steps per second of the plain loop."""
    torch.set_num_threads(threads)
    samples, layout = case.samples, torch.channels_last if case.channels_last else torch.contiguous_format
    dataset, timeline = samples.dataset, common_timeline(rounds)
    model = copy.deepcopy(module).to(memory_format=layout)  # type: ignore[call-overload]
    offset, scale = (torch.tensor(n).view(-1, 1, 1) for n in (dataset.offset, dataset.scale))
    images = (torch.from_numpy(np.array(dataset.train_inputs)).float() / 255 - offset) / scale
    images = images.to(memory_format=layout)
    labels = torch.from_numpy(dataset.train_targets.astype(np.int64))
    began = time.perf_counter()
    for k in range(rounds):
        start, deltas = as_vector(model), []
        uplinks = timeline.uplinks(k)
        for device, training in zip(timeline.device[uplinks], timeline.training[uplinks], strict=True):
            local = copy.deepcopy(model)
            optimiser = torch.optim.SGD(local.parameters(), lr=SGD.learning_rate)
            for batch in samples.batches(SGD, TrainingStart(int(device), int(training))):
                rows = torch.from_numpy(batch.astype(np.int64))
                optimiser.zero_grad()
                nn.functional.cross_entropy(local(images[rows]), labels[rows]).backward()
                optimiser.step()
            deltas.append(start - as_vector(local))
        load_vector(model, start - torch.stack(deltas).mean(dim=0))
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)


def cases() -> dict[str, Case]:
    """Return what is measured, by name."""
    mnist, cifar = common_samples(load_mnist()), common_samples(images_like_cifar10())
    return {
        "cnn": Case(lambda: sequential(NETWORK), mnist, 6, False),
        "lenet": Case(lambda: sequential(LENET), mnist, 6, False),
        "mcmahan": Case(lambda: sequential(MCMAHAN), mnist, 2, False),
        "leaf": Case(leaf, mnist, 1, False),
        "2nn": Case(lambda: sequential(MLP), mnist, 6, False),
        "cnn-dropout": Case(with_dropout, mnist, 6, False),
        "vgg": Case(vgg, cifar, 1, True),
        "resnet8-gn": Case(lambda: resnet8("group"), cifar, 1, True),
        "resnet8-bn": Case(lambda: resnet8("batch"), cifar, 1, True),
    }


def in_cpu_time(way: Callable[[], float]) -> float:
    """Return the rate of a way by the processor time of this process instead of the clock."""
    began, used = time.perf_counter(), time.process_time()
    rate = way()
    return rate * (time.perf_counter() - began) / (time.process_time() - used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(cases()), choices=list(cases()))
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    threads = 1 if options.cpu_time else THREADS
    best = max if options.cpu_time else statistics.median
    print(f"{describe_machine()}; SGD steps/s, {best.__name__} of {options.repeats} turns, {threads} threads")
    for name in options.models:
        case = cases()[name]
        rounds = case.times * options.rounds
        task = TorchTask(case.make, case.samples, SGD, device="cpu")
        times = 4 if task.trains_together and not case.channels_last else 1  # so that both take about as long
        ways = {
            "loop": partial(loop_rate, case, case.make(), rounds, threads),
            "task": partial(steps_per_second, common_timeline(times * rounds), task, threads),
        }
        if options.cpu_time:
            ways = {way: partial(in_cpu_time, rate) for way, rate in ways.items()}
        rates = interleaved(ways, options.repeats, lambda: None)
        loop, mine = (best(rates[way]) for way in ("loop", "task"))
        ratio = mine / loop if options.cpu_time else median_ratio(rates["task"], rates["loop"])
        how = "compiled" if task.trains_together else "torch"
        kind = "loop cl" if case.channels_last else "loop"
        print(f"{name:12} {kind:7} {loop:7.1f}  TorchTask ({how}) {mine:7.1f}  {ratio:5.2f}×", flush=True)


if __name__ == "__main__":
    main()
