"""Memory layout of a network and of its activations while it is trained (numpy only).

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

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.architecture import Architecture

LANES = 8
COLUMNS = 8 * LANES
"""The inputs of a dense layer are padded to whole tiles of eight vectors."""


def _record(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


# A *tap* is one multiply-add of a filter: kernel row, kernel column, channel. A *piece* is eight neighbouring
# taps of one kernel row, worked on as one vector; `tile` is how many pieces are worked on together.
# `input_start` and `output_start` count values of one sample (there are eight, so times eight in memory);
# `input_stride` is the padded number of values of one sample.
CONVOLUTION = _record(
    "channels", "width", "values", "filters", "kernel", "pooled_height", "pooled_width",
    "input_start", "input_stride", "output_start", "weight_start", "bias_start",
    "packed_start", "taps_start", "taps", "pieces_start", "pieces", "padded_row", "tile",
    "shifted_start", "span", "span_tile",
)  # fmt: skip
DENSE = _record(
    "inputs", "outputs", "block", "input_start", "input_stride", "output_start", "weight_start", "bias_start"
)


class Plan(NamedTuple):
    """Constants of a network, as arrays so that compiled code can take them."""

    convolutions: NDArray[np.void]
    denses: NDArray[np.void]
    tap_steps: NDArray[np.int64]
    """Distance in lanes from the corner of a patch to each tap."""
    piece_steps: NDArray[np.int64]
    """Distance in rows from the corner of a patch to each piece."""
    source: NDArray[np.int32]
    """Number in the model's vector of each parameter, -1 where there is only padding."""
    factor: NDArray[np.float32]
    """A pixel x of channel c becomes factor[c] * x + shift[c]."""
    shift: NDArray[np.float32]
    image_stride: int
    """Padded number of values of one image."""
    packed_size: int
    """Room for the filters as the forward pass reads them, see `Workspace.packed`."""
    shifted_size: int
    """Room for the filters as the backward pass reads them, see `Workspace.shifted`."""


class Workspace(NamedTuple):
    """Memory of one call; nothing in it is used after the call."""

    lanes: NDArray[np.float32]
    """Activations of all layers, [value, sample]."""
    rows: NDArray[np.float32]
    """The same as [sample, value]."""
    winners: NDArray[np.int32]
    """Distance in rows from the corner of each pooling window to its maximum, as lanes."""
    errors: NDArray[np.float32]
    """Gradient of the loss with respect to every activation, as lanes."""
    error_rows: NDArray[np.float32]
    """The same for the inputs of one convolution, as rows; before that, room to read images."""
    places: NDArray[np.int32]
    """A list of what gets a gradient: starts of patches, or of filters..."""
    amounts: NDArray[np.float32]
    """... and how much..."""
    ends: NDArray[np.int32]
    """... and where the part of each window and sample ends."""
    packed: NDArray[np.float32]
    """Filters in the order the forward pass reads them: [group of outputs, tap, output of the group]."""
    shifted: NDArray[np.float32]
    """Filters in the order the gradient of the inputs reads them: see `convolution.shift_filters`."""
    parameters: NDArray[np.float32]
    gradient: NDArray[np.float32]


def make_plan(architecture: Architecture, offset: Sequence[float], scale: Sequence[float]) -> Plan:
    """Return the layout of a network; a pixel x of channel c becomes (x / 255 - offset[c]) / scale[c]."""
    channels, height, width = architecture.input_shape
    # Images are read eight pixels at a time, so the last pixels of every channel may be padding.
    sizes = [channels * _round_up(height * width, LANES)]
    sizes += [prod(shape) for shape in architecture.feature_shapes[1:]]
    sizes += [outputs for _, outputs in architecture.dense_sizes]
    starts = np.cumsum([0] + [_padded(size) for size in sizes]).tolist()
    layout = _Layout()
    for number in range(len(architecture.convolutions)):
        _add_convolution(layout, architecture, number, starts)
    for number in range(len(architecture.dense_sizes)):
        _add_dense(layout, architecture, number, starts)
    return Plan(
        convolutions=_records(CONVOLUTION, layout.convolutions),
        denses=_records(DENSE, layout.denses),
        tap_steps=np.array(layout.tap_steps, np.int64),
        piece_steps=np.array(layout.piece_steps, np.int64),
        source=np.concatenate(layout.source).astype(np.int32),
        factor=(1.0 / (255.0 * np.asarray(scale, np.float64))).astype(np.float32),
        shift=(-np.asarray(offset, np.float64) / np.asarray(scale, np.float64)).astype(np.float32),
        image_stride=starts[1],
        packed_size=layout.packed,
        shifted_size=layout.shifted,
    )


def make_workspace(plan: Plan) -> Workspace:
    """Allocate the memory of one call."""
    last = plan.denses[-1]
    values = LANES * (int(last["output_start"]) + _padded(int(last["outputs"])))
    layers = plan.convolutions
    windows = LANES * layers["pooled_height"] * layers["pooled_width"]
    listed = int(np.max(windows * layers["filters"], initial=0))
    return Workspace(
        lanes=_aligned(values),
        rows=_aligned(values),
        winners=np.zeros(values, np.int32),
        errors=_aligned(values),
        error_rows=_aligned(LANES * int(np.max(layers["input_stride"], initial=plan.image_stride))),
        packed=_aligned(plan.packed_size),
        shifted=_aligned(plan.shifted_size),
        places=np.zeros(listed + 1, np.int32),
        amounts=_aligned(listed + 1),
        ends=np.zeros(int(np.max(windows, initial=0)), np.int32),
        parameters=_aligned(plan.source.size),
        gradient=_aligned(plan.source.size),
    )


def _aligned(size: int) -> NDArray[np.float32]:
    """Return zeros that start at a cache line, with room to read one tile past the end."""
    line = 16
    memory = np.zeros(size + COLUMNS + line, np.float32)
    start = -(memory.ctypes.data // 4) % line
    return memory[start : start + size + COLUMNS]


class _Layout:
    """Layers and parameters that have their place already."""

    def __init__(self) -> None:
        self.convolutions: list[Mapping[str, int]] = []
        self.denses: list[Mapping[str, int]] = []
        self.tap_steps: list[int] = []
        self.piece_steps: list[int] = []
        self.source: list[NDArray[np.int64]] = []
        self.packed = 0
        self.shifted = 0
        self._taken = 0

    def take(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the positions of the next parameters in the model's vector."""
        numbers = self._taken + np.arange(prod(shape), dtype=np.int64).reshape(shape)
        self._taken += prod(shape)
        return numbers

    def place(self, numbers: NDArray[np.int64]) -> int:
        """Append parameters, padded to whole vectors; return their start."""
        start = sum(part.size for part in self.source)
        self.source.append(_filled(numbers.reshape(1, -1), 1, LANES).ravel())
        return start


def _add_convolution(layout: _Layout, architecture: Architecture, number: int, starts: list[int]) -> None:
    channels, height, width = architecture.feature_shapes[number]
    filters, pooled_height, pooled_width = architecture.feature_shapes[number + 1]
    kernel = architecture.convolutions[number][1]
    numbers = layout.take((filters, channels, kernel, kernel)).transpose(0, 2, 3, 1)
    rows = _filled(numbers.reshape(filters * kernel, kernel * channels), 1, LANES)
    pieces_per_row = rows.shape[1] // LANES
    tile = _tile(kernel * pieces_per_row)
    pieces = _filled(rows.reshape(filters, -1), 1, tile * LANES)
    span_tile = _tile(_round_up((kernel + 1) * channels, LANES) // LANES)
    span = _round_up((kernel + 1) * channels, span_tile * LANES)
    layout.convolutions.append(
        {
            "channels": channels,
            "width": width,
            "values": channels * height * width,
            "filters": filters,
            "kernel": kernel,
            "pooled_height": pooled_height,
            "pooled_width": pooled_width,
            "input_start": starts[number],
            "input_stride": starts[number + 1] - starts[number],
            "output_start": starts[number + 1],
            "weight_start": layout.place(pieces),
            "bias_start": layout.place(layout.take((filters,))),
            "packed_start": layout.packed,
            "taps_start": len(layout.tap_steps),
            "taps": kernel * kernel * channels,
            "pieces_start": len(layout.piece_steps),
            "pieces": pieces.shape[1] // LANES,
            "padded_row": rows.shape[1],
            "tile": tile,
            "shifted_start": layout.shifted,
            "span": span,
            "span_tile": span_tile,
        }
    )
    layout.shifted += 2 * (kernel + 2) * filters * span
    layout.packed += max(filters, 2) * kernel * kernel * channels
    row = width * channels
    layout.tap_steps += [LANES * (y * row + tap) for y in range(kernel) for tap in range(kernel * channels)]
    steps = [y * row + LANES * piece for y in range(kernel) for piece in range(pieces_per_row)]
    layout.piece_steps += steps + [0] * (pieces.shape[1] // LANES - len(steps))


def _add_dense(layout: _Layout, architecture: Architecture, number: int, starts: list[int]) -> None:
    inputs, outputs = architecture.dense_sizes[number]
    before = len(architecture.convolutions) + number
    numbers = layout.take((outputs, inputs))
    if number == 0:
        numbers = numbers.reshape(outputs, *architecture.feature_shapes[-1]).transpose(0, 2, 3, 1)
    weights = _filled(_filled(numbers.reshape(outputs, inputs), 1, COLUMNS), 0, LANES)
    blocks = weights.reshape(len(weights), -1, LANES).transpose(1, 0, 2)
    layout.denses.append(
        {
            "inputs": inputs,
            "outputs": outputs,
            "block": LANES * len(weights),
            "input_start": starts[before],
            "input_stride": starts[before + 1] - starts[before],
            "output_start": starts[before + 1],
            "weight_start": layout.place(blocks),
            "bias_start": layout.place(layout.take((outputs,))),
        }
    )


def _records(kind: np.dtype[np.void], layers: Sequence[Mapping[str, int]]) -> NDArray[np.void]:
    names = kind.names or ()
    return np.array([tuple(layer[name] for name in names) for layer in layers], kind)


def _round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below the number."""
    return -(-number // multiple) * multiple


def _filled(numbers: NDArray[np.int64], axis: int, multiple: int) -> NDArray[np.int64]:
    """Return parameters padded at the end of an axis, up to a multiple."""
    missing = _round_up(numbers.shape[axis], multiple) - numbers.shape[axis]
    widths = [(0, missing if number == axis else 0) for number in range(numbers.ndim)]
    return np.pad(numbers, widths, constant_values=-1)


def _padded(values: int) -> int:
    """Return the values reserved for one sample: whole vectors, slack to read past the end.

    It is never a large power of two: samples that far apart would share cache lines.
    """
    return _round_up(values, 2 * LANES) + 2 * LANES


def _tile(vectors: int) -> int:
    """Return how many vectors to process together, 5 or 8, so that as few as possible are padding."""
    return min((8, 5), key=lambda size: _round_up(vectors, size))
