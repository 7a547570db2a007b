"""Layout in memory of a network of dense layers only, see `dense_passes`, and models in that layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES, Architecture, aligned, round_up
from slotwise.fastcnn.vectors import (
    WIDE,
    compiled,
    inlined,
    load_tile,
    repeat,
    store,
    store_tile,
    transpose,
)

Floats = NDArray[np.float32]

BLOCK = 64
"""Samples that go through the network together, and pixels whose weights are used together.

The pixels that are not zero are bits of a word, so both are 64.
"""
WIDTH = 16  # rows of weights and activations are padded to whole cache lines of 16 numbers, see `padded_row`

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
        row = padded_row(outputs)
        # A group of pixels belongs to one channel, because channels differ in factor and shift. Later layers
        # have a row for each padded output of the layer before.
        rows = channels * words * BLOCK if number == 0 else padded_row(inputs)
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


def padded_row(numbers: int) -> int:
    """Return the length of a row with so many numbers: a few vectors more can mean one pass less."""
    vectors = round_up(numbers, WIDTH) // WIDTH
    # Tiles have 13, eight, four or one wide vectors with AVX-512, see `pixel_layer`.
    while WIDE == WIDTH and vectors != 1 and (vectors % 8 not in (0, 4, 5) or vectors == 5):
        vectors += 1
    return vectors * WIDTH


def make_dense_workspace(plan: DensePlan) -> DenseWorkspace:
    """Allocate the memory of one call."""
    words = len(plan.pixels)
    widest_row = int(max(plan.layers["row"]))
    return DenseWorkspace(
        pixels=aligned(BLOCK * words * BLOCK, np.uint8),
        by_sample=aligned(BLOCK * words, np.uint64),
        by_pixel=aligned(BLOCK * words, np.uint64),
        activations=aligned(plan.activations, np.float32),
        errors=aligned(plan.activations, np.float32),
        sums=aligned(widest_row, np.float32),
        transposed=aligned(plan.widest, np.float32),
        parameters=aligned(plan.parameters, np.float32),
        gradient=aligned(plan.parameters, np.float32),
    )


@inlined
def read_model(plan: DensePlan, work: DenseWorkspace, model: Floats) -> None:
    """Bring a model into the order the kernels use."""
    for number in range(len(plan.layers)):
        layer = plan.layers[number]
        weights = work.parameters[layer.weight_start : layer.bias_start]
        if number == 0:
            for word in range(len(plan.pixels)):
                to_columns(layer, plan.starts[word], plan.pixels[word], model, word * BLOCK, weights)
        else:
            to_columns(layer, 0, layer.inputs, model, 0, weights)
        end = layer.model_start + layer.inputs * layer.outputs
        for output in range(layer.row):
            value = model[end + output] if output < layer.outputs else np.float32(0)
            work.parameters[layer.bias_start + output] = value


@inlined
def write_model(plan: DensePlan, values: Floats, model: Floats) -> None:
    """Bring parameters, or their gradient, back into the model's order."""
    for number in range(len(plan.layers)):
        layer = plan.layers[number]
        weights = values[layer.weight_start : layer.bias_start]
        if number == 0:
            for word in range(len(plan.pixels)):
                from_columns(layer, word * BLOCK, plan.pixels[word], weights, plan.starts[word], model)
        else:
            from_columns(layer, 0, layer.inputs, weights, 0, model)
        end = layer.model_start + layer.inputs * layer.outputs
        for output in range(layer.outputs):
            model[end + output] = values[layer.bias_start + output]


@compiled
def to_columns(layer: Any, start: int, count: int, model: Floats, place: int, weights: Floats) -> None:
    """weights[place + i, o] = model's weight of output o and input start + i, for `count` inputs."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    # The model has rows of inputs, the kernels have rows of outputs. Blocks of 8 x 8 are transposed in
    # registers, so that both are read and written eight numbers at a time.
    for output in range(0, layer.row, LANES):
        for number in range(0, count, LANES):
            source = layer.model_start + output * layer.inputs + start + number
            target = (place + number) * layer.row + output
            if output + LANES <= layer.outputs and number + LANES <= count:
                tile = transpose(load_tile(model, source, layer.inputs, eight))
                store_tile(weights, target, layer.row, tile)
            else:  # at the edges one by one; columns of padding are zero
                for i in range(min(LANES, count - number)):
                    store(weights, target + i * layer.row, zero)
                    for o in range(min(LANES, layer.outputs - output)):
                        value = model[np.uintp(source + o * layer.inputs + i)]
                        weights[np.uintp(target + i * layer.row + o)] = value


@compiled
def from_columns(layer: Any, place: int, count: int, weights: Floats, start: int, model: Floats) -> None:
    """Copy weights from columns back to the rows of the model: the inverse of `to_columns`."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for output in range(0, layer.outputs, LANES):
        for number in range(0, count, LANES):
            target = layer.model_start + output * layer.inputs + start + number
            source = (place + number) * layer.row + output
            if output + LANES <= layer.outputs and number + LANES <= count:
                tile = transpose(load_tile(weights, source, layer.row, eight))
                store_tile(model, target, layer.inputs, tile)
            else:
                for i in range(min(LANES, count - number)):
                    for o in range(min(LANES, layer.outputs - output)):
                        value = weights[np.uintp(source + i * layer.row + o)]
                        model[np.uintp(target + o * layer.inputs + i)] = value
