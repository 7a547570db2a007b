"""Layout in memory of a network of dense layers only (numpy only), see `dense_passes`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.architecture import Architecture

BLOCK = 64
"""Samples that go through the network together, and pixels whose weights are used together.

The pixels that are not zero are bits of a word, so both are 64.
"""
WIDTH = 16  # rows of weights and activations are padded to whole cache lines of 16 numbers

LAYER = ("inputs", "outputs", "row", "model_start", "weight_start", "bias_start", "output_start")


class DensePlan(NamedTuple):
    """Constants of a network of dense layers, as arrays so that compiled code can take them.

    The weights of a layer are [input, output], each row padded to `row` numbers. The inputs of the first
    layer are the pixels of one channel after the other, each channel padded to a multiple of 64.
    """

    layers: NDArray[np.void]
    pixels: NDArray[np.int64]  # pixels in each group of 64; fewer in the last of a channel
    channels: NDArray[np.int64]  # channel of each group
    starts: NDArray[np.int64]  # number in an image of the first pixel of each group
    values: NDArray[np.float32]  # [channel, byte]: factor * byte; a pixel x becomes factor * x + shift
    shift: NDArray[np.float32]  # of each channel
    parameters: int  # length of the parameters in this layout
    activations: int  # numbers of all layers for a block of samples
    widest: int  # numbers of the largest weight matrix after the first


class DenseWorkspace(NamedTuple):
    """Memory of one call; nothing in it is used after the call."""

    pixels: NDArray[np.uint8]  # [sample, pixel], the channels padded
    by_sample: NDArray[np.uint64]  # [word, sample]: bit i is set if pixel i of the word is not zero
    by_pixel: NDArray[np.uint64]  # [pixel]: bit i is set if the pixel of sample i is not zero
    activations: NDArray[np.float32]  # outputs of every layer, [sample, output]
    errors: NDArray[np.float32]  # gradient of the loss with respect to them
    sums: NDArray[np.float32]  # one row: sum over pixels or samples
    transposed: NDArray[np.float32]  # weights of one layer as [output, input]
    parameters: NDArray[np.float32]
    gradient: NDArray[np.float32]


def make_dense_plan(architecture: Architecture, offset: Sequence[float], scale: Sequence[float]) -> DensePlan:
    """Return the layout of a network; a pixel x of channel c becomes (x / 255 - offset[c]) / scale[c]."""
    channels, size = architecture.input_shape[0], prod(architecture.input_shape[1:])
    words = -(-size // BLOCK)
    layers, given, placed, activations, widest = [], 0, 0, 0, 0
    for number, (inputs, outputs) in enumerate(architecture.dense_sizes):
        row = _padded(outputs)
        # A group of pixels belongs to one channel, because channels differ in factor and shift. Later layers
        # have a row for each padded output of the layer before.
        rows = channels * words * BLOCK if number == 0 else _padded(inputs)
        layers.append((inputs, outputs, row, given, placed, placed + rows * row, activations))
        given += inputs * outputs + outputs
        # The bias is one more row after the weights.
        placed += (rows + 1) * row
        activations += BLOCK * row
        widest = max(widest, 0 if number == 0 else rows * row)
    starts = np.arange(words) * BLOCK
    deviations = np.asarray(scale, np.float64)
    values = np.arange(256) / (255.0 * deviations[:, np.newaxis])
    return DensePlan(
        layers=np.array(layers, [(name, np.int64) for name in LAYER]),
        pixels=np.tile(np.minimum(size - starts, BLOCK), channels),
        channels=np.repeat(np.arange(channels), words),
        starts=(np.arange(channels)[:, np.newaxis] * size + starts).ravel(),
        values=values.astype(np.float32).ravel(),
        shift=(-np.asarray(offset, np.float64) / deviations).astype(np.float32),
        parameters=placed,
        activations=activations,
        widest=widest,
    )


def make_dense_workspace(plan: DensePlan) -> DenseWorkspace:
    """Allocate the memory of one call."""
    words = len(plan.pixels)
    widest_row = int(max(plan.layers["row"]))
    return DenseWorkspace(
        pixels=_aligned(BLOCK * words * BLOCK, np.uint8),
        by_sample=_aligned(BLOCK * words, np.uint64),
        by_pixel=_aligned(BLOCK * words, np.uint64),
        activations=_aligned(plan.activations, np.float32),
        errors=_aligned(plan.activations, np.float32),
        sums=_aligned(widest_row, np.float32),
        transposed=_aligned(plan.widest, np.float32),
        parameters=_aligned(plan.parameters, np.float32),
        gradient=_aligned(plan.parameters, np.float32),
    )


def _aligned(size: int, kind: type[np.generic]) -> NDArray[Any]:
    """Return zeros that start at a cache line."""
    item = np.dtype(kind).itemsize
    memory = np.zeros(size + 64 // item, kind)
    start = -memory.ctypes.data % 64 // item
    return memory[start : start + size]


def _padded(numbers: int) -> int:
    """Return the numbers of a row: whole cache lines."""
    return -(-numbers // WIDTH) * WIDTH
