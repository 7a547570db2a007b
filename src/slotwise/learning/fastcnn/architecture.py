"""Architecture: the shape of a small convolutional network and of its parameter vector (numpy only)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Architecture:
    """Network of convolutions, each with max-pool 2 and relu, then dense layers with relu between them.

    The same network in PyTorch is ``Sequential(Conv2d, MaxPool2d(2), ReLU, ..., Flatten, Linear, ReLU, ...,
    Linear)``, and a model is one float32 vector in the order of its ``parameters_to_vector``.
    """

    input_shape: tuple[int, int, int]
    """Channels, height and width of an image."""
    convolutions: tuple[tuple[int, int], ...]
    """Output channels and kernel size of each convolution."""
    hidden: tuple[int, ...]
    """Units of each dense layer before the last."""
    classes: int

    def __post_init__(self) -> None:
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise ValueError(
                f"input_shape must be (channels, height, width), all positive: {self.input_shape}"
            )
        if any(len(layer) != 2 or min(layer) < 1 for layer in self.convolutions):
            raise ValueError(
                f"a convolution is (output channels, kernel size), positive: {self.convolutions}"
            )
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"every hidden layer needs at least one unit: {self.hidden}")
        if self.classes < 2:
            raise ValueError(f"a classifier needs at least two classes, not {self.classes}")
        for number, (_, height, width) in enumerate(self.feature_shapes[1:], start=1):
            if min(height, width) < 1:
                raise ValueError(f"convolution {number} does not fit: no pixel of the image is left after it")

    @property
    def feature_shapes(self) -> tuple[tuple[int, int, int], ...]:
        """(channels, height, width) of the image and after each convolution with its max-pool."""
        shapes = [self.input_shape]
        for channels, kernel in self.convolutions:
            _, height, width = shapes[-1]
            shapes.append((channels, (height - kernel + 1) // 2, (width - kernel + 1) // 2))
        return tuple(shapes)

    @property
    def dense_sizes(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of each dense layer."""
        sizes = (prod(self.feature_shapes[-1]), *self.hidden, self.classes)
        return tuple(pairwise(sizes))

    @property
    def weight_shapes(self) -> tuple[Shape, ...]:
        """Weights of each layer: [outputs, inputs, kernel, kernel], then [outputs, inputs]."""
        inputs = (shape[0] for shape in self.feature_shapes)
        filters = [
            (out, channels, kernel, kernel)
            for channels, (out, kernel) in zip(inputs, self.convolutions, strict=False)
        ]
        return (*filters, *((out, inputs) for inputs, out in self.dense_sizes))

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """Weight, bias, weight, bias, ... in PyTorch's order."""
        return tuple(shape for weight in self.weight_shapes for shape in (weight, weight[:1]))

    @property
    def parameters(self) -> int:
        """Length of a model vector."""
        return sum(prod(shape) for shape in self.parameter_shapes)

    def initial_parameters(self, generator: np.random.Generator) -> NDArray[np.float32]:
        """Return weights and biases uniform in ±1/sqrt(fan-in), PyTorch's default, layer after layer."""
        values = []
        for weight in self.weight_shapes:
            bound = 1.0 / np.sqrt(prod(weight[1:]))
            values.append(generator.uniform(-bound, bound, prod(weight) + weight[0]))
        return np.concatenate(values).astype(np.float32)

    @property
    def dense_multiply_adds(self) -> int:
        """Multiply-adds per sample of a textbook forward and backward pass.

        Each layer costs its forward pass once more for the gradient of its weights and once more for the
        gradient of its inputs; the gradient of the images is not needed.
        """
        forward = [self._forward_multiply_adds(number) for number in range(len(self.weight_shapes))]
        return 3 * sum(forward) - forward[0]

    @property
    def needed_multiply_adds(self) -> int:
        """Multiply-adds per sample, with convolution gradients only where max-pool passes them."""
        total = 0
        for number, weight in enumerate(self.weight_shapes):
            gradients = 1 if number == 0 else 2
            backward = self._forward_multiply_adds(number)
            if number < len(self.convolutions):
                backward = prod(weight) * prod(self.feature_shapes[number + 1][1:])
            total += self._forward_multiply_adds(number) + gradients * backward
        return total

    def _forward_multiply_adds(self, number: int) -> int:
        weight = self.weight_shapes[number]
        if number >= len(self.convolutions):
            return prod(weight)
        _, height, width = self.feature_shapes[number]
        return prod(weight) * (height - weight[2] + 1) * (width - weight[3] + 1)
