"""The network, the images of each partition, training and testing."""

from functools import cache

import numpy as np
import torch
from torch import nn

from slotwise import load_mnist


class Net(nn.Module):
    """Two convolutions and two dense layers, 21,840 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return a number for each class."""
        hidden = torch.relu(torch.max_pool2d(self.conv1(images), 2))
        hidden = torch.relu(torch.max_pool2d(self.conv2(hidden), 2))
        return self.fc2(torch.relu(self.fc1(hidden.flatten(1))))


@cache
def _images(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return MNIST as slotwise has it, standardised."""
    data = load_mnist()
    inputs = data.train_inputs if part == "train" else data.test_inputs
    targets = data.train_targets if part == "train" else data.test_targets
    scaled = (torch.from_numpy(np.asarray(inputs, dtype=np.float32)) / 255 - 0.1307) / 0.3081
    return scaled.reshape(-1, 1, 28, 28), torch.from_numpy(np.asarray(targets, dtype=np.int64))


def load_data(partition: int, partitions: int, samples: int):
    """Return the images and labels of a partition; most of them are of one label."""
    images, labels = _images("train")
    draw = np.random.default_rng([5, partition, partitions])
    own = np.flatnonzero(labels.numpy() == partition % 10)
    rows = np.concatenate([draw.choice(own, samples * 3 // 4), draw.choice(len(labels), samples // 4)])
    return images[rows], labels[rows]


def held_out_data(samples: int = 1000):
    """Return the first test images."""
    images, labels = _images("test")
    return images[:samples], labels[:samples]


def train(net, images, labels, *, steps, batch_size, rate, seed) -> float:
    """Take SGD steps on batches drawn from the seed; return the mean loss."""
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    total = 0.0
    for _ in range(steps):
        rows = torch.randperm(len(labels), generator=order)[:batch_size]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / steps


@torch.no_grad()
def test(net, images, labels) -> tuple[float, float]:
    """Return loss and accuracy."""
    outputs = net(images)
    right = (outputs.argmax(1) == labels).float().mean().item()
    return nn.functional.cross_entropy(outputs, labels).item(), right
