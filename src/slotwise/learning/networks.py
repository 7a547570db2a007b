"""Built-in networks by name, and the layers that can be chosen for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

NetworkName = Literal["cnn", "mlp", "logistic", "cnn-dropout", "resnet8-gn", "resnet8-bn"]
RESNETS: tuple[NetworkName, ...] = ("resnet8-gn", "resnet8-bn")
DROPOUT: Mapping[NetworkName, float] = {"cnn-dropout": 0.5}  # as in PyTorch's MNIST example
STAGES = ((16, 1), (32, 2), (64, 2))  # channels and stride of each stage of a ResNet-8


class NetworkKind(NamedTuple):
    """Default layers of a built-in network; None where the network has no such layers to choose.

    Attributes:
        channels: Output channels of the convolutions.
        hidden: Units of the dense layers before the last.
    """

    channels: tuple[int, ...] | None
    hidden: tuple[int, ...] | None


NETWORKS: Mapping[NetworkName, NetworkKind] = {
    "cnn": NetworkKind(channels=(10, 20), hidden=(50,)),
    "mlp": NetworkKind(channels=None, hidden=(64,)),
    "logistic": NetworkKind(channels=None, hidden=None),
    "cnn-dropout": NetworkKind(channels=(10, 20), hidden=(50,)),
    "resnet8-gn": NetworkKind(channels=None, hidden=None),
    "resnet8-bn": NetworkKind(channels=None, hidden=None),
}


@dataclass(frozen=True)
class Resnet8:
    """Size of ResNet-8, as `Architecture` has it for the other networks; torch_networks builds it.

    Attributes:
        input_shape: Channels, height and width of an image.
        classes: Number of classes.
    """

    input_shape: tuple[int, int, int]
    classes: int

    @property
    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each array, in the order of the torch module."""
        inputs = STAGES[0][0]
        shapes: list[tuple[int, ...]] = [(inputs, self.input_shape[0], 3, 3), (inputs,), (inputs,)]
        for outputs, stride in STAGES:
            norm = ((outputs,), (outputs,))
            shapes += [(outputs, inputs, 3, 3), *norm, (outputs, outputs, 3, 3), *norm]
            if stride != 1:
                shapes += [(outputs, inputs, 1, 1), *norm]
            inputs = outputs
        return (*shapes, (self.classes, inputs), (self.classes,))

    @property
    def parameters(self) -> int:
        """Number of parameters of all arrays together."""
        return sum(map(prod, self.parameter_shapes))

    @property
    def dense_multiply_adds(self) -> int:
        """Multiply-adds per sample of a forward and backward pass, without the gradient of the images."""
        channels, height, width = self.input_shape
        inputs, pixels = STAGES[0][0], height * width
        first = 9 * channels * inputs * pixels
        total = first
        for outputs, stride in STAGES:
            height, width = -(-height // stride), -(-width // stride)
            pixels = height * width
            total += pixels * 9 * outputs * (inputs + outputs)
            total += pixels * inputs * outputs if stride != 1 else 0
            inputs = outputs
        return 3 * (total + inputs * self.classes) - first
