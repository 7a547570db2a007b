"""LayerNetwork: a network as a list of layers, with the shapes between them (numpy only).

It says more than an `Architecture`: padding, strides, layers without bias, average pools, group
normalisation, sums of two outputs. `wide_layout` lays it out in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import Architecture, Shape


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Base class of the layers.

    Attributes:
        source: Number of the layer whose output it takes, from 0; -1 for the images.
        rectify: Its output goes through a ReLU.
        dropout: Probability with which training drops a value of its output; whole channels of an image, or
            single values.
        drops_channels: Whole channels are dropped.
    """

    source: int = -1
    rectify: bool = False
    dropout: float = 0.0
    drops_channels: bool = False

    @property
    def sources(self) -> tuple[int, ...]:
        """Numbers of all layers whose outputs it takes."""
        return (self.source,)

    def output_shape(self, shape: Shape) -> Shape:
        """Return channels, height and width of the output."""
        return shape

    def parameter_shapes(self, shape: Shape) -> tuple[Shape, ...]:  # noqa: ARG002
        """Return the shapes of the parameters in PyTorch's order."""
        return ()


def _positions(size: int, kernel: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - kernel) // stride + 1


@dataclass(frozen=True, kw_only=True)
class Convolution(Layer):
    """Convolution, then max-pool 2 if `pooled`, then the ReLU."""

    filters: int
    kernel: tuple[int, int]
    stride: int = 1
    padding: int = 0
    bias: bool = True
    pooled: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        """Return channels, height and width after the pool."""
        height, width = self.map_shape(shape)
        return (self.filters, height // 2, width // 2) if self.pooled else (self.filters, height, width)

    def map_shape(self, shape: Shape) -> tuple[int, int]:
        """Return height and width before the pool."""
        sizes = zip(shape[1:], self.kernel, strict=True)
        height, width = (_positions(size, kernel, self.stride, self.padding) for size, kernel in sizes)
        return height, width

    def parameter_shapes(self, shape: Shape) -> tuple[Shape, ...]:
        """Return the shapes of filters and bias."""
        filters = (self.filters, shape[0], *self.kernel)
        return (filters, (self.filters,)) if self.bias else (filters,)


@dataclass(frozen=True, kw_only=True)
class Pool(Layer):
    """Mean, or maximum, of windows."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    mean: bool

    def output_shape(self, shape: Shape) -> Shape:
        """Return channels, height and width of the output."""
        sizes = zip(shape[1:], self.kernel, self.stride, strict=True)
        return (shape[0], *(_positions(size, kernel, stride, 0) for size, kernel, stride in sizes))


@dataclass(frozen=True, kw_only=True)
class Normalisation(Layer):
    """Group normalisation; with as many groups as channels, an instance normalisation.

    Wu and He, "Group Normalization", ECCV 2018: the channels of a group, at all positions of a sample, get
    mean 0 and variance 1. With `affine`, each channel is then multiplied by its weight and gets its bias.
    """

    groups: int
    affine: bool = True
    epsilon: float = 1e-5

    def parameter_shapes(self, shape: Shape) -> tuple[Shape, ...]:
        """Return the shapes of weight and bias."""
        return (shape[:1], shape[:1]) if self.affine else ()


@dataclass(frozen=True, kw_only=True)
class Sum(Layer):
    """Sum of the outputs of two layers, for residual connections; a copy of one of them without `other`."""

    other: int | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        """Numbers of both layers."""
        return (self.source,) if self.other is None else (self.source, self.other)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """Linear layer of all values of its source, in PyTorch's order: channel, row, column."""

    units: int
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:  # noqa: ARG002
        """Return the units as channels of one pixel."""
        return (self.units, 1, 1)

    def parameter_shapes(self, shape: Shape) -> tuple[Shape, ...]:
        """Return the shapes of weights and bias."""
        weights = (self.units, prod(shape))
        return (weights, (self.units,)) if self.bias else (weights,)


@dataclass(frozen=True)
class LayerNetwork:
    """A classifier of images: layers, of which the last gives the scores of the classes.

    A model is one float32 vector: the parameters of the layers in their order, each weight and bias as
    PyTorch has them.
    """

    input_shape: tuple[int, int, int]
    layers: tuple[Layer, ...]
    shapes: tuple[Shape, ...] = field(init=False, repr=False, compare=False)
    """Output of each layer."""

    def __post_init__(self) -> None:
        shapes: list[Shape] = []
        for number, layer in enumerate(self.layers):
            if not -1 <= min(layer.sources) <= max(layer.sources) < number:
                raise ValueError(f"layer {number + 1} takes the output of a layer after it")
            given = [self._shape(shapes, source) for source in layer.sources]
            if given[0] != given[-1]:
                raise ValueError(f"layer {number + 1} adds maps of different sizes")
            shapes.append(layer.output_shape(given[0]))
            if min(shapes[-1]) < 1:
                raise ValueError(f"layer {number + 1} does not fit: no pixel of the image is left after it")
        object.__setattr__(self, "shapes", tuple(shapes))
        if not self.layers or not isinstance(self.layers[-1], Dense):
            raise ValueError("the last layer must be dense")
        if self.classes < 2:
            raise ValueError(f"a classifier needs at least two classes, not {self.classes}")
        read = {source for layer in self.layers for source in layer.sources}
        if unread := {*range(len(self.layers) - 1)} - read:
            raise ValueError(f"no layer takes the output of layer {min(unread) + 1}")
        if any(isinstance(layer, Normalisation | Sum) and min(layer.sources) < 0 for layer in self.layers):
            raise ValueError("images are normalised or added before a layer of another kind")
        dense = [isinstance(layer, Dense) for layer in self.layers]
        if sorted(dense) != dense:
            raise ValueError("dense layers must come after all others")

    def _shape(self, shapes: Sequence[Shape], number: int) -> Shape:
        return self.input_shape if number < 0 else shapes[number]

    def source_shape(self, number: int) -> Shape:
        """Return the shape of the input of a layer."""
        return self._shape(self.shapes, self.layers[number].source)

    @property
    def classes(self) -> int:
        """Number of classes that the layer tells apart."""
        return self.shapes[-1][0]

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the parameters, layer after layer."""
        layers = enumerate(self.layers)
        return tuple(shape for n, layer in layers for shape in layer.parameter_shapes(self.source_shape(n)))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters: the number of the layer, and weight or bias."""
        counts = [len(layer.parameter_shapes(self.source_shape(n))) for n, layer in enumerate(self.layers)]
        kinds = ("weight", "bias")
        return tuple(f"{n}.{kind}" for n, count in enumerate(counts) for kind in kinds[:count])

    def initial_parameters(self, generator: np.random.Generator) -> NDArray[np.float32]:
        """Return PyTorch's default, layer after layer.

        Weights and biases are uniform in ±1/sqrt(fan-in), those of normalisations 1 and 0.
        """
        values = [np.empty(0)]
        for number, layer in enumerate(self.layers):
            shapes = layer.parameter_shapes(self.source_shape(number))
            if isinstance(layer, Normalisation):
                values.append(np.repeat([1.0, 0.0], [prod(shape) for shape in shapes] or [0, 0]))
                continue
            bound = 1.0 / np.sqrt(prod(shapes[0][1:])) if shapes else 0.0
            values.append(generator.uniform(-bound, bound, sum(map(prod, shapes))))
        return np.concatenate(values).astype(np.float32)

    @cached_property
    def parameters(self) -> int:
        """Length of a model vector."""
        return sum(prod(shape) for shape in self.parameter_shapes)

    @cached_property
    def dropout_rates(self) -> NDArray[np.float32]:
        """Probability of each value that training may drop, layer after layer, in PyTorch's order."""
        rates = [
            np.full(shape[0] if layer.drops_channels else prod(shape), layer.dropout, np.float32)
            for layer, shape in zip(self.layers, self.shapes, strict=True)
            if layer.dropout
        ]
        return np.concatenate(rates) if rates else np.empty(0, np.float32)


def as_layers(architecture: Architecture) -> LayerNetwork:
    """Return an architecture with hidden layers as a list of layers; a vector is the same model in both."""
    layers: list[Layer] = []
    rate, hidden = architecture.dropout, len(architecture.hidden)
    for number, (filters, kernel) in enumerate(architecture.convolutions, start=1):
        dropout = rate if number == len(architecture.convolutions) else 0.0
        shape = {"filters": filters, "kernel": (kernel, kernel), "pooled": True, "rectify": True}
        layers.append(
            Convolution(source=len(layers) - 1, dropout=dropout, drops_channels=bool(dropout), **shape)  # type: ignore[arg-type]
        )
    for number, (_, units) in enumerate(architecture.dense_sizes, start=1):
        dropout = rate if number == hidden else 0.0
        layers.append(Dense(source=len(layers) - 1, units=units, rectify=number <= hidden, dropout=dropout))
    return LayerNetwork(architecture.input_shape, tuple(layers))


def as_architecture(network: LayerNetwork) -> Architecture | None:
    """Return a list of layers as an architecture, if it is one."""
    filters = [layer for layer in network.layers if isinstance(layer, Convolution)]
    plain = all(layer.pooled and layer.stride == 1 and not layer.padding for layer in filters)
    if not plain or not all(isinstance(layer, Convolution | Dense) for layer in network.layers):
        return None
    units = [layer.units for layer in network.layers if isinstance(layer, Dense)]
    found = Architecture(
        network.input_shape,
        tuple((layer.filters, layer.kernel[0]) for layer in filters),
        tuple(units[:-1]),
        units[-1],
        max(layer.dropout for layer in network.layers),
    )
    same = (found.hidden or not found.dropout) and as_layers(found) == network
    return found if same else None
