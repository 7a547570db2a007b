"""Small versions of the models that people train, on generated data: tasks for ``--task torch_zoo:…``.

The tests import it too, and the processes that they start.
"""

import numpy as np
import torch
from torch import nn

from slotwise.data import Dataset
from slotwise.learning.local_training import DeviceSamples
from slotwise.learning.randomness import Purpose, generator
from slotwise.torch.networks import resnet8
from slotwise.torch.task import TorchTask

NAMES = ("mlp", "lstm", "cnn_dropout", "resnet_bn", "resnet_bn_average", "resnet_gn")


def divided(inputs, targets, devices, classes=None, **options):
    """Devices with unequal numbers of samples; the last eight samples are the test."""
    dataset = Dataset("generated", inputs[:-8], targets[:-8], inputs[-8:], targets[-8:], classes, **options)
    ends = np.linspace(0, 1, devices + 1) ** 1.5 * len(dataset.train_targets)
    rows = np.split(np.arange(len(dataset.train_targets)), ends[1:-1].astype(int))
    return DeviceSamples(dataset, rows)


def images(devices, size=8, channels=3):
    draw = generator(3, Purpose.PARTITION)
    pixels = draw.integers(0, 256, (30 * devices + 8, channels, size, size), dtype=np.uint8)
    standard = {"offset": (0.5,) * channels, "scale": (0.25,) * channels}
    return divided(pixels, draw.integers(0, 4, len(pixels)), devices, 4, **standard)


class Lstm(nn.Module):
    """The next symbol of a sequence; with dropout between its layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.layers = nn.LSTM(5, 6, 2, batch_first=True, dropout=0.3)
        self.output = nn.Linear(6, 7)

    def forward(self, symbols):
        hidden, _ = self.layers(self.embedding(symbols))
        return self.output(hidden).transpose(1, 2)


def small_cnn():
    """A network with `view`, which does not work on every order in memory."""

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.dropout = nn.Conv2d(3, 4, 3), nn.Dropout2d(0.3)
            self.hidden, self.output = nn.Linear(36, 8), nn.Linear(8, 4)

        def forward(self, pixels):
            maps = nn.functional.max_pool2d(self.dropout(self.convolution(pixels)), 2).relu()
            hidden = self.hidden(maps.view(-1, 36)).relu()
            noise = 0.01 * torch.randn_like(hidden) if self.training else 0
            return self.output(nn.functional.dropout(hidden, 0.5, self.training) + noise)

    return Cnn()


def mlp(config):
    draw = generator(1, Purpose.PARTITION)
    inputs = draw.normal(size=(30 * config.channel.devices + 8, 6))
    samples = divided(inputs, (inputs[:, :2] ** 2).astype(np.float32), config.channel.devices)
    metrics = {"absolute_error": lambda outputs, targets: (outputs - targets).abs().mean(dim=1)}
    return TorchTask(
        lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2)),
        samples,
        config.training,
        loss=nn.functional.mse_loss,
        metrics=metrics,
    )


def lstm(config):
    draw = generator(2, Purpose.PARTITION)
    text = draw.integers(0, 7, (30 * config.channel.devices + 8, 10))
    return TorchTask(Lstm, divided(text[:, :-1], text[:, 1:], config.channel.devices, 7), config.training)


def cnn_dropout(config):
    return TorchTask(small_cnn, images(config.channel.devices), config.training)


def resnet_bn(config):
    return TorchTask(lambda: resnet8("batch", classes=4), images(config.channel.devices), config.training)


def resnet_bn_average(config):
    make, samples = (lambda: resnet8("batch", classes=4)), images(config.channel.devices)
    return TorchTask(make, samples, config.training, buffers="average")


def resnet_gn(config):
    make, samples = (lambda: resnet8("group", classes=4)), images(config.channel.devices)
    return TorchTask(make, samples, config.training, compile=False)


def waiting(name):
    """A task that stops for ever in round 6, for a test that kills it."""

    def make(config):
        import threading

        task = globals()[name](config)
        compute = task.local_update

        def local_update(model, start):
            if start.round >= 6:
                threading.Event().wait()
            return compute(model, start)

        task.local_update = local_update
        return task

    return make


for _name in NAMES:
    globals()[f"waiting_{_name}"] = waiting(_name)
