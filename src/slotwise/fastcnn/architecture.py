"""Architecture: the shape of a small convolutional network, and its layout in memory (numpy only).

Eight samples go through the network together. Their activations are kept in two layouts:

- *lanes*: [value, sample], eight samples side by side, for passes that do the same to every sample;
- *rows*: [sample, value], for the gradients of convolutions, where every sample differs because max-pool
  passed other positions.

In both, the values of an image or feature map lie channels last: [row, column, channel].

Parameters have an order of their own too: filters are [output, kernel row, kernel column and channel] with
every kernel row padded to whole vectors; dense weights are [block of eight inputs, output, input of the
block], the inputs of the first in the order of the channels-last feature map. `Plan.source` maps each
one to its position in the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 8
COLUMNS = 8 * LANES
"""The inputs of a dense layer are padded to whole tiles of eight vectors."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Architecture:
    """Network of convolutions, each with max-pool 2 and relu, then dense layers with relu between them.

    The same network in PyTorch is ``Sequential(Conv2d, MaxPool2d(2), ReLU, ..., Flatten, Linear, ReLU, ...,
    Linear)``, and a model is one float32 vector in the order of its ``parameters_to_vector``. With dropout,
    there is ``Dropout2d`` after the last convolution and ``Dropout`` before the last dense layer.
    """

    input_shape: tuple[int, int, int]
    """Channels, height and width of an image."""
    convolutions: tuple[tuple[int, int], ...]
    """Output channels and kernel size of each convolution."""
    hidden: tuple[int, ...]
    """Units of each dense layer before the last."""
    classes: int
    dropout: float = 0.0
    """Probability with which training drops a channel of the last convolution, or an input of the last dense
    layer."""

    def __post_init__(self) -> None:
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise ValueError(f"input_shape must be (channels, height, width), positive: {self.input_shape}")
        if any(len(layer) != 2 or min(layer) < 1 for layer in self.convolutions):
            raise ValueError(f"convolutions must be (channels, kernel size), positive: {self.convolutions}")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"every hidden layer needs at least one unit: {self.hidden}")
        if self.classes < 2:
            raise ValueError(f"a classifier needs at least two classes, not {self.classes}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout}")
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
        return tuple(pairwise((prod(self.feature_shapes[-1]), *self.hidden, self.classes)))

    @property
    def dropped_sizes(self) -> tuple[int, int]:
        """Number of channels, and of inputs of the last dense layer, of which training drops some."""
        if not self.dropout:
            return 0, 0
        return self.convolutions[-1][0] if self.convolutions else 0, self.dense_sizes[-1][0]

    @property
    def dropout_rates(self) -> NDArray[np.float32]:
        """Probability of each value that training may drop: channels, then inputs of the last dense layer."""
        return np.full(sum(self.dropped_sizes), self.dropout, np.float32)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names in the state_dict of the same ``torch.nn.Sequential``."""
        # Sequential(Conv2d, MaxPool2d, ReLU, …, Flatten, Linear, ReLU, …) has these numbers.
        filters, layers = len(self.convolutions), len(self.weight_shapes)
        numbers = [3 * i if i < filters else 3 * filters + 1 + 2 * (i - filters) for i in range(layers)]
        if self.dropout:  # one more layer after the last convolution, and before the last layer
            numbers[filters:] = [number + bool(filters) for number in numbers[filters:]]
            numbers[-1] += 1
        return tuple(f"{number}.{kind}" for number in numbers for kind in ("weight", "bias"))

    @property
    def weight_shapes(self) -> tuple[Shape, ...]:
        """Weights of each layer: [outputs, inputs, kernel, kernel], then [outputs, inputs]."""
        layers = zip(self.feature_shapes, self.convolutions, strict=False)
        filters = [(out, shape[0], kernel, kernel) for shape, (out, kernel) in layers]
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
        forward = self._forward_multiply_adds()
        return 3 * sum(forward) - forward[0]

    @property
    def needed_multiply_adds(self) -> int:
        """Multiply-adds per sample, with convolution gradients only where max-pool passes them."""
        forward = self._forward_multiply_adds()
        pooled = [prod(shape[1:]) for shape in self.feature_shapes[1:]]
        filters = [prod(weight) * left for weight, left in zip(self.weight_shapes, pooled, strict=False)]
        backward = [*filters, *forward[len(filters) :]]
        return sum(forward) + 2 * sum(backward) - backward[0]

    def _forward_multiply_adds(self) -> list[int]:
        filters = [
            prod(weight) * (height - weight[2] + 1) * (width - weight[3] + 1)
            for weight, (_, height, width) in zip(self.weight_shapes, self.feature_shapes[:-1], strict=False)
        ]
        return [*filters, *map(prod, self.dense_sizes)]


# A *tap* is one multiply-add of a filter: kernel row, kernel column, channel. A *piece* is eight neighbouring
# taps of one kernel row, worked on as one vector; `tile` is how many pieces are worked on together.
# `input_start` and `output_start` count values of one sample (there are eight, so times eight in memory);
# `input_stride` is the padded number of values of one sample.
CONVOLUTION = (
    "channels", "width", "values", "filters", "kernel", "pooled_height", "pooled_width",
    "input_start", "input_stride", "output_start", "weight_start", "bias_start",
    "packed_start", "taps_start", "taps", "pieces_start", "pieces", "padded_row", "tile",
    "shifted_start", "span", "span_tile",
)  # fmt: skip
DENSE = (
    "inputs", "outputs", "block",
    "input_start", "input_stride", "output_start", "weight_start", "bias_start",
)  # fmt: skip


class Plan(NamedTuple):
    """Constants of a network, as arrays so that compiled code can take them."""

    convolutions: NDArray[np.void]
    denses: NDArray[np.void]
    tap_steps: NDArray[np.int64]  # distance in lanes from the corner of a patch to each tap
    piece_steps: NDArray[np.int64]  # distance in rows from the corner of a patch to each piece
    source: NDArray[np.int32]  # number in the model's vector of each parameter, -1 for padding
    factor: NDArray[np.float32]  # a pixel x of channel c becomes factor[c] * x + shift[c]
    shift: NDArray[np.float32]
    dropped_channels: int  # channels of the last convolution, if training drops some of them, else 0
    keep_scale: float  # factor of what dropout keeps
    image_stride: int  # padded number of values of one image
    packed_size: int
    shifted_size: int


class Workspace(NamedTuple):
    """Memory of one call; nothing in it is used after the call."""

    lanes: NDArray[np.float32]  # activations of all layers, [value, sample]
    rows: NDArray[np.float32]  # the same as [sample, value]
    winners: NDArray[np.int32]  # distance in rows from the corner of each window to its maximum, as lanes
    errors: NDArray[np.float32]  # gradient of the loss with respect to every activation, as lanes
    # The same for the inputs of one convolution, as rows; before that, room to read images.
    error_rows: NDArray[np.float32]
    # A list of what gets a gradient (starts of patches, or of filters), and how much; of filters, there is a
    # list for each sample, and `ends` says where the part of each window ends. Eight more entries may be
    # written after a list.
    places: NDArray[np.int32]
    amounts: NDArray[np.float32]
    ends: NDArray[np.int32]
    # Filters in the order the forward pass reads them, [group of outputs, tap, output of the group], and in
    # the order the gradient of the inputs reads them, see `convolution.shift_filters`.
    packed: NDArray[np.float32]
    shifted: NDArray[np.float32]
    parameters: NDArray[np.float32]
    gradient: NDArray[np.float32]


def make_plan(architecture: Architecture, offset: Sequence[float], scale: Sequence[float]) -> Plan:
    """Return the layout of a network; a pixel x of channel c becomes (x / 255 - offset[c]) / scale[c]."""
    channels, height, width = architecture.input_shape
    # Images are read eight pixels at a time, so the last pixels of every channel may be padding.
    sizes = [channels * round_up(height * width, LANES)]
    sizes += [prod(shape) for shape in architecture.feature_shapes[1:]]
    sizes += [outputs for _, outputs in architecture.dense_sizes]
    # All layers share one range of values: the outputs of a layer are the inputs of the next, not a copy.
    starts = np.cumsum([0] + [_padded(size) for size in sizes]).tolist()
    layout = _Layout()
    for number in range(len(architecture.convolutions)):
        layout.add_convolution(architecture, number, starts[number], starts[number + 1])
    for number in range(len(architecture.dense_sizes)):
        before = len(architecture.convolutions) + number
        layout.add_dense(architecture, number, starts[before], starts[before + 1])
    deviations = np.asarray(scale, np.float64)
    return Plan(
        convolutions=_records(CONVOLUTION, layout.convolutions),
        denses=_records(DENSE, layout.denses),
        tap_steps=np.array(layout.tap_steps, np.int64),
        piece_steps=np.array(layout.piece_steps, np.int64),
        source=np.concatenate(layout.source).astype(np.int32),
        factor=(1.0 / (255.0 * deviations)).astype(np.float32),
        shift=(-np.asarray(offset, np.float64) / deviations).astype(np.float32),
        dropped_channels=architecture.dropped_sizes[0],
        keep_scale=1.0 / (1.0 - architecture.dropout),
        image_stride=starts[1],
        packed_size=layout.packed,
        shifted_size=layout.shifted,
    )


def _records(names: Sequence[str], layers: list[dict[str, int]]) -> NDArray[np.void]:
    rows = [tuple(layer[name] for name in names) for layer in layers]
    return np.array(rows, [(name, np.int64) for name in names])


def make_workspace(plan: Plan) -> Workspace:
    """Allocate the memory of one call."""
    last = plan.denses[-1]
    values = LANES * (int(last["output_start"]) + _padded(int(last["outputs"])))
    layers = plan.convolutions
    windows = LANES * layers["pooled_height"] * layers["pooled_width"]
    listed = int(np.max(windows * layers["filters"], initial=0))
    return Workspace(
        lanes=_floats(values),
        rows=_floats(values),
        winners=np.zeros(values, np.int32),
        errors=_floats(values),
        error_rows=_floats(LANES * int(np.max(layers["input_stride"], initial=plan.image_stride))),
        packed=_floats(plan.packed_size),
        shifted=_floats(plan.shifted_size),
        # Eight lists, one for each sample, with room for eight entries after each.
        places=np.zeros(listed + LANES * LANES, np.int32),
        amounts=_floats(listed + LANES * LANES),
        # The ends of the eight lists before the first window and after each.
        ends=np.zeros(int(np.max(windows, initial=0)) + LANES, np.int32),
        parameters=_floats(plan.source.size),
        gradient=_floats(plan.source.size),
    )


def _floats(size: int) -> NDArray[np.float32]:
    """Return zeros with room to read one tile past the end."""
    return aligned(size + COLUMNS, np.float32)


def aligned(size: int, kind: type[np.generic]) -> NDArray[Any]:
    """Return zeros that start at a cache line."""
    item = np.dtype(kind).itemsize
    memory = np.zeros(size + 64 // item, kind)
    start = -memory.ctypes.data % 64 // item
    return memory[start : start + size]


class _Layout:
    """Layers and parameters that have their place already."""

    def __init__(self) -> None:
        self.convolutions: list[dict[str, int]] = []
        self.denses: list[dict[str, int]] = []
        self.tap_steps: list[int] = []
        self.piece_steps: list[int] = []
        self.source: list[NDArray[np.int64]] = []
        self.packed = self.shifted = self._taken = 0

    def take(self, shape: Shape) -> NDArray[np.int64]:
        """Return the positions of the next parameters in the model's vector."""
        numbers = self._taken + np.arange(prod(shape), dtype=np.int64).reshape(shape)
        self._taken += prod(shape)
        return numbers

    def place(self, numbers: NDArray[np.int64]) -> int:
        """Append parameters, padded to whole vectors; return their start."""
        start = sum(part.size for part in self.source)
        self.source.append(_filled(numbers.reshape(1, -1), LANES).ravel())
        return start

    def add_convolution(self, architecture: Architecture, number: int, start: int, end: int) -> None:
        """Place a convolution whose inputs lie from ``start`` to ``end``."""
        channels, height, width = architecture.feature_shapes[number]
        filters, pooled_height, pooled_width = architecture.feature_shapes[number + 1]
        kernel = architecture.convolutions[number][1]
        numbers = self.take((filters, channels, kernel, kernel)).transpose(0, 2, 3, 1)
        # Each kernel row is padded by itself. A piece must not cross into the next one, which in the input
        # begins a whole image row later.
        rows = _filled(numbers.reshape(filters * kernel, kernel * channels), LANES)
        pieces_per_row = rows.shape[1] // LANES
        tile = _tile(kernel * pieces_per_row)
        weights = _filled(rows.reshape(filters, -1), tile * LANES)
        pieces = weights.shape[1] // LANES
        # A kernel row moved to the right by 0 or 1 columns covers kernel + 1 columns of the input.
        span_tile = _tile(round_up((kernel + 1) * channels, LANES) // LANES)
        span = round_up((kernel + 1) * channels, span_tile * LANES)
        taps = kernel * kernel * channels
        self.convolutions.append({
            "channels": channels, "width": width, "values": channels * height * width, "filters": filters,
            "kernel": kernel, "pooled_height": pooled_height, "pooled_width": pooled_width,
            "input_start": start, "input_stride": end - start, "output_start": end,
            "weight_start": self.place(weights), "bias_start": self.place(self.take((filters,))),
            "packed_start": self.packed, "taps_start": len(self.tap_steps), "taps": taps,
            "pieces_start": len(self.piece_steps), "pieces": pieces, "padded_row": rows.shape[1],
            "tile": tile, "shifted_start": self.shifted, "span": span, "span_tile": span_tile,
        })  # fmt: skip
        # Both moves of every kernel row, and of a row of zeros before the first and after the last.
        self.shifted += 2 * (kernel + 2) * filters * span
        # A few filters are computed as a group of two vectors, see `convolution.group_size`.
        self.packed += max(filters + 1, 4) * taps
        row = width * channels
        self.tap_steps += [LANES * (y * row + tap) for y in range(kernel) for tap in range(kernel * channels)]
        steps = [y * row + LANES * piece for y in range(kernel) for piece in range(pieces_per_row)]
        # Pieces that only fill up a tile read the corner of the patch. What they add to the gradient is
        # padding, which `passes.update` ignores.
        self.piece_steps += steps + [0] * (pieces - len(steps))

    def add_dense(self, architecture: Architecture, number: int, start: int, end: int) -> None:
        """Place a dense layer whose inputs lie from ``start`` to ``end``."""
        inputs, outputs = architecture.dense_sizes[number]
        numbers = self.take((outputs, inputs))
        # PyTorch flattens the feature map channels first; here it lies channels last.
        if number == 0:
            numbers = numbers.reshape(outputs, *architecture.feature_shapes[-1]).transpose(0, 2, 3, 1)
        # The forward pass computes eight outputs at once, the gradient of the weights 64 inputs at once.
        weights = _filled(_filled(numbers.reshape(outputs, inputs), COLUMNS).T, LANES).T
        blocks = weights.reshape(len(weights), -1, LANES).transpose(1, 0, 2)
        self.denses.append({
            "inputs": inputs, "outputs": outputs, "block": LANES * len(weights),
            "input_start": start, "input_stride": end - start, "output_start": end,
            "weight_start": self.place(blocks), "bias_start": self.place(self.take((outputs,))),
        })  # fmt: skip


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below the number."""
    return -(-number // multiple) * multiple


def _filled(rows: NDArray[np.int64], multiple: int) -> NDArray[np.int64]:
    """Return rows of parameters padded at their end, up to a multiple."""
    length = rows.shape[1]
    return np.pad(rows, ((0, 0), (0, round_up(length, multiple) - length)), constant_values=-1)


def _padded(values: int) -> int:
    """Return the values reserved for one sample: pairs of vectors, the last to read past the end."""
    return round_up(values, 2 * LANES) + 2 * LANES


def _tile(vectors: int) -> int:
    """Return how many vectors to process together, 5 or 8, so that as few as possible are padding."""
    return min((8, 5), key=lambda size: round_up(vectors, size))
