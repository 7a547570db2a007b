"""An own torch module: a regression with dropout, on data sets of different sizes.

slotwise train --task examples.own_model.sine:make_task --devices 12 --group-size 3 --out runs/sine
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from slotwise.learning import Task
from slotwise.runs import RunConfig
from slotwise.torch.samples import TorchSamples
from slotwise.torch.task import TorchTask


def make_task(config: RunConfig) -> Task:
    """Return the task of a run: the function that --task names."""
    return TorchTask(
        build_network,
        make_samples(config.channel.devices, config.data_seed),
        config.training,
        loss=nn.functional.mse_loss,
        metrics={"absolute_error": lambda outputs, targets: (outputs - targets).abs()},
        model_seed=config.model_seed,
    )


def build_network() -> nn.Module:
    """Return the module; torch is seeded with the model seed of the run when this is called."""
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))


def make_samples(devices: int, seed: int) -> TorchSamples:
    """Return samples of a sine: device n has 10·n of them, from its own part of the range."""
    draw = torch.Generator().manual_seed(seed)

    def part(count: int, first: float, last: float) -> TensorDataset:
        inputs = first + (last - first) * torch.rand(count, 1, generator=draw)
        return TensorDataset(inputs, noisy_sine(inputs, draw))

    ends = torch.linspace(-3, 3, devices + 1).tolist()
    own = [part(10 * (n + 1), ends[n], ends[n + 1]) for n in range(devices)]
    return TorchSamples(own, part(500, -3, 3))


def noisy_sine(inputs: Tensor, draw: torch.Generator) -> Tensor:
    """Return the targets of a regression."""
    return torch.sin(2 * inputs) + 0.1 * torch.randn(inputs.shape, generator=draw)
