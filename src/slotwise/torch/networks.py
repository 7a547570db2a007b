"""Networks as torch modules: the built-in one, and ResNet-8 for small colour images."""

from __future__ import annotations

from typing import Literal

from slotwise.base.extras import importing
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning.networks import STAGES, Resnet8

with importing():
    from torch import Tensor, nn

Normalisation = Literal["group", "batch"]
CHANNELS_PER_GROUP = 8


def sequential(architecture: Architecture) -> nn.Sequential:
    """Return the built-in network as a torch module; a flat vector is the same model in both."""
    layers: list[nn.Module] = []
    channels, rate = architecture.input_shape[0], architecture.dropout
    for out, kernel in architecture.convolutions:
        layers += [nn.Conv2d(channels, out, kernel), nn.MaxPool2d(2), nn.ReLU()]
        channels = out
    if rate and layers:
        layers.insert(-2, nn.Dropout2d(rate))
    layers.append(nn.Flatten())
    for inputs, outputs in architecture.dense_sizes:
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    if rate:
        layers.insert(-2, nn.Dropout(rate))
    return nn.Sequential(*layers[:-1])


def build_network(name: str, size: Architecture | Resnet8) -> nn.Module:
    """Return a built-in network as a torch module."""
    if isinstance(size, Architecture):
        return sequential(size)
    normalisation: Normalisation = "group" if name == "resnet8-gn" else "batch"
    return resnet8(normalisation, channels=size.input_shape[0], classes=size.classes)


def resnet8(normalisation: Normalisation, *, channels: int = 3, classes: int = 10) -> nn.Sequential:
    """Return ResNet-8 for images of about 32 × 32 pixels: three stages of one basic block each.

    A smaller sibling of the CIFAR-10 networks of He, Zhang, Ren and Sun, "Deep Residual Learning for Image
    Recognition", CVPR 2016: 16, 32 and 64 channels, with 1×1 convolutions where the shape changes. Groups of
    a group normalisation have 8 channels (Hsieh, Phanishayee, Mutlu and Gibbons, "The Non-IID Data Quagmire
    of Decentralized Machine Learning", ICML 2020, on why federated learning prefers it to batch
    normalisation).
    """
    first = STAGES[0][0]
    layers: list[nn.Module] = [_convolution(channels, first, 3), _norm(normalisation, first), nn.ReLU()]
    inputs = first
    for outputs, stride in STAGES:
        layers.append(BasicBlock(normalisation, inputs, outputs, stride))
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions, each normalised, and a connection around both."""

    def __init__(self, normalisation: Normalisation, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _convolution(inputs, outputs, 3, stride),
            _norm(normalisation, outputs),
            nn.ReLU(),
            _convolution(outputs, outputs, 3),
            _norm(normalisation, outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                _convolution(inputs, outputs, 1, stride), _norm(normalisation, outputs)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Return the block's output."""
        result: Tensor = self.layers(images) + self.shortcut(images)
        return nn.functional.relu(result)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _norm(normalisation: Normalisation, channels: int) -> nn.Module:
    if normalisation == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(channels // CHANNELS_PER_GROUP, channels)
