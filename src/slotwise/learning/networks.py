"""Built-in networks: their layers and sizes. To add one, write a class and name it in `NETWORKS`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar

from slotwise.base.errors import InputError
from slotwise.fastcnn.architecture import Architecture
from slotwise.options import Choice, Range
from slotwise.options.checks import Value

STAGES = ((16, 1), (32, 2), (64, 2))  # channels and stride of each stage of a ResNet-8
Shape = tuple[int, int, int]
Layers = Annotated[tuple[int, ...], Range(least=1)]


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


@dataclass(frozen=True, kw_only=True)
class Network(Value, ABC):
    """A network for images of any shape, and of any number of classes."""

    channels: ClassVar[tuple[int, ...]] = ()
    hidden: ClassVar[tuple[int, ...]] = ()
    needs_torch: ClassVar[bool] = False
    takes_tables: ClassVar[bool] = False  # inputs [n, features] as well, on PyTorch

    @abstractmethod
    def size(self, input_shape: Shape, classes: int) -> Architecture | Resnet8:
        """Return the network for these images; a ValueError if they are too small for its layers."""


@dataclass(frozen=True, kw_only=True)
class Cnn(Network):
    """Convolutions, each 5×5 with max-pool 2 and relu, and dense layers.

    Attributes:
        channels: Output channels of the convolutions, each 5×5 with max-pool 2 and relu.
        hidden: Units of the dense layers before the last (default of the mlp: 64).
    """

    dropout: ClassVar[float] = 0.0
    channels: Layers = (10, 20)  # type: ignore[misc]
    hidden: Layers = (50,)  # type: ignore[misc]

    def size(self, input_shape: Shape, classes: int) -> Architecture:
        """Return the layers for these images."""
        convolutions = tuple((count, 5) for count in self.channels)
        return Architecture(
            input_shape=input_shape,
            convolutions=convolutions,
            hidden=self.hidden,
            classes=classes,
            dropout=self.dropout,
        )


class CnnDropout(Cnn):
    """The cnn with dropout of a half after the convolutions and the dense layers, as in PyTorch's example."""

    dropout: ClassVar[float] = 0.5


@dataclass(frozen=True, kw_only=True)
class Mlp(Network):
    """A multilayer perceptron: dense layers with relu.

    Attributes:
        hidden: Units of the dense layers before the last.
    """

    takes_tables: ClassVar[bool] = True
    hidden: Layers = (64,)  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hidden:
            raise InputError("hidden", self.hidden, "at least one layer; network logistic has none")

    def size(self, input_shape: Shape, classes: int) -> Architecture:
        """Return the layers for these images."""
        return Architecture(input_shape=input_shape, convolutions=(), hidden=self.hidden, classes=classes)


class Logistic(Network):
    """Multinomial logistic regression: one dense layer."""

    takes_tables: ClassVar[bool] = True

    def size(self, input_shape: Shape, classes: int) -> Architecture:
        """Return the layer for these images."""
        return Architecture(input_shape=input_shape, convolutions=(), hidden=(), classes=classes)


class Resnet8Gn(Network):
    """ResNet-8 with group normalisation."""

    needs_torch: ClassVar[bool] = True

    def size(self, input_shape: Shape, classes: int) -> Resnet8:
        """Return its size for these images."""
        return Resnet8(input_shape, classes)


class Resnet8Bn(Resnet8Gn):
    """ResNet-8 with batch normalisation."""


NETWORKS: Mapping[str, type[Network]] = {
    "cnn": Cnn,
    "mlp": Mlp,
    "logistic": Logistic,
    "cnn-dropout": CnnDropout,
    "resnet8-gn": Resnet8Gn,
    "resnet8-bn": Resnet8Bn,
}
NETWORK = Choice("network", NETWORKS)
