"""The first dense layer, whose inputs are the pixels of images: forward pass and gradient.

The first layer has almost all the weights, and its inputs are bytes, many of them zero (81 % in MNIST). A
pixel x is standardised as factor * x + shift, so that

    sum of (factor * x[p] + shift) * w[p] = shift * (sum of w[p]) + sum of factor * x[p] * w[p]

where the first sum is the same for all samples, and the second needs only the pixels that are not zero. The
gradient of w[p] has the same two parts. Weights lie as [input, output], so that one pixel of one sample is a
multiple of one row of weights added to one row of sums. Pixels are taken 64 at a time: their weights then
stay in the nearest cache while all samples of the block use them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.dense_layout import BLOCK, DensePlan, DenseWorkspace
from slotwise.fastcnn.instructions import copy_bytes, lowest_bit, transpose_bits
from slotwise.fastcnn.vectors import (
    WIDE,
    Tile,
    compiled,
    load_tile,
    scaled_add,
    store_tile,
    wide_broadcast,
    wide_repeat,
    zeros,
)

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]
Images = NDArray[np.uint8]

# Tiles of the columns of a row: as many sums at once as it takes to hide how long one addition takes, without
# passes over the pixels for a few columns alone, see `dense_layout.padded_row`.
LARGE, MIDDLE, SMALL, SMALLEST = (13, 8, 4, 1) if WIDE == 16 else (8, 8, 2, 2)
large, middle, small, smallest = zeros(LARGE), zeros(MIDDLE), zeros(SMALL), zeros(SMALLEST)


@compiled
def tile_size(vectors: int) -> int:
    """Return the size of the next tile if so many vectors of the row are left."""
    if vectors == LARGE:
        return LARGE
    if vectors >= MIDDLE:
        return MIDDLE
    return SMALL if vectors >= SMALL else SMALLEST


@compiled
def read_pixels(
    plan: DensePlan, images: Images, chosen: Numbers, pixels: Images, by_sample: Words, by_pixel: Words
) -> None:
    """Copy up to 64 images, each channel padded with zeros, and find their pixels that are not zero."""
    words = len(plan.pixels)
    # Samples missing in a smaller block must have no bits, because the gradient goes by the bits alone.
    by_sample[:] = 0
    for sample in range(chosen.size):
        image = images[chosen[sample]]
        for word in range(words):
            at, source = (sample * words + word) * BLOCK, plan.starts[word]
            if plan.pixels[word] == BLOCK:
                found = copy_bytes(image, source, pixels, at)
            else:
                # 64 bytes would reach into the next channel or past the image. The bytes after these pixels
                # have been zero since they were allocated.
                for number in range(plan.pixels[word]):
                    pixels[np.uintp(at + number)] = image[np.uintp(source + number)]
                found = copy_bytes(pixels, at, pixels, at)
            by_sample[np.uintp(word * BLOCK + sample)] = found
    for word in range(words):
        transpose_bits(by_sample, word * BLOCK, by_pixel, word * BLOCK)


@compiled
def add_pixels(plan: DensePlan, layer: Any, work: DenseWorkspace, samples: int, outputs: Floats) -> None:
    """outputs[sample, o] = sums[o] + sum over pixels of standardised pixel * weights[pixel, o]."""
    outputs[: samples * layer.row] = 0
    column = 0
    while column < layer.row:
        size = tile_size((layer.row - column) // WIDE)
        # The length of a tile is part of its type, so every size has its own code.
        if size == LARGE:
            _add_pixels(large(), column, plan, layer, work, samples, outputs)
        elif size == MIDDLE:
            _add_pixels(middle(), column, plan, layer, work, samples, outputs)
        elif size == SMALL:
            _add_pixels(small(), column, plan, layer, work, samples, outputs)
        else:
            _add_pixels(smallest(), column, plan, layer, work, samples, outputs)
        column += size * WIDE


@compiled
def _add_pixels(
    like: Tile, column: int, plan: DensePlan, layer: Any, work: DenseWorkspace, samples: int, outputs: Floats
) -> None:
    """Do `add_pixels` for as many columns as `like` has lanes."""
    row, words = layer.row, len(plan.pixels)
    weights, pixels, values = work.parameters[layer.weight_start :], work.pixels, plan.values
    # `sums` has the biases here. The part that is the same for all samples is added to them once.
    constant = load_tile(work.sums, column, WIDE, like)
    for word in range(words):
        start = word * BLOCK * row + column
        shift, table = wide_broadcast(plan.shift, plan.channels[word]), 256 * plan.channels[word]
        for number in range(plan.pixels[word]):
            constant = scaled_add(constant, shift, weights, start + number * row)
        for sample in range(samples):
            bits = work.by_sample[np.uintp(word * BLOCK + sample)]
            if bits == np.uint64(0):
                continue
            at = (sample * words + word) * BLOCK
            total = load_tile(outputs, sample * row + column, WIDE, like)
            while bits != np.uint64(0):
                number = lowest_bit(bits)
                bits &= bits - np.uint64(1)
                # A table of 256 products replaces a conversion and a multiplication.
                value = wide_broadcast(values, table + np.intp(pixels[np.uintp(at + number)]))
                total = scaled_add(total, value, weights, start + number * row)
            store_tile(outputs, sample * row + column, WIDE, total)
    store_tile(work.sums, column, WIDE, constant)
    # The constant is complete only now, after the last group of pixels.
    one = wide_repeat(np.float32(1))
    for sample in range(samples):
        at = sample * row + column
        store_tile(outputs, at, WIDE, scaled_add(constant, one, outputs, at))


@compiled
def add_pixel_gradient(
    plan: DensePlan, layer: Any, work: DenseWorkspace, errors: Floats, target: Floats
) -> None:
    """target[pixel, o] += sum over samples of standardised pixel * errors[sample, o].

    `sums` must be the sums of the errors over the samples.
    """
    column = 0
    while column < layer.row:
        size = tile_size((layer.row - column) // WIDE)
        if size == LARGE:
            _add_pixel_gradient(large(), column, plan, layer, work, errors, target)
        elif size == MIDDLE:
            _add_pixel_gradient(middle(), column, plan, layer, work, errors, target)
        elif size == SMALL:
            _add_pixel_gradient(small(), column, plan, layer, work, errors, target)
        else:
            _add_pixel_gradient(smallest(), column, plan, layer, work, errors, target)
        column += size * WIDE


@compiled
def _add_pixel_gradient(
    like: Tile, column: int, plan: DensePlan, layer: Any, work: DenseWorkspace, errors: Floats, target: Floats
) -> None:
    """Do `add_pixel_gradient` for as many columns as `like` has lanes."""
    row, words, one = layer.row, len(plan.pixels), wide_repeat(np.float32(1))
    gradient, pixels, values = target[layer.weight_start :], work.pixels, plan.values
    for word in range(words):
        shift, table = wide_broadcast(plan.shift, plan.channels[word]), 256 * plan.channels[word]
        # `like` is zero, so this is the shift times the sums of the errors.
        constant = scaled_add(like, shift, work.sums, column)
        for number in range(plan.pixels[word]):
            pixel = word * BLOCK + number
            # With the bits by pixel, a row of the gradient is summed in registers and stored once.
            bits = work.by_pixel[np.uintp(pixel)]
            total = constant
            while bits != np.uint64(0):
                sample = lowest_bit(bits)
                bits &= bits - np.uint64(1)
                at = sample * words * BLOCK + pixel
                value = wide_broadcast(values, table + np.intp(pixels[np.uintp(at)]))
                total = scaled_add(total, value, errors, sample * row + column)
            at = pixel * row + column
            store_tile(gradient, at, WIDE, scaled_add(total, one, gradient, at))
