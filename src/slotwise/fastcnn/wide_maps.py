"""Layers whose outputs are maps, for one sample: convolutions and pools, forward."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import (
    WIDE,
    add,
    compiled,
    store,
    store_whole,
    times,
    where_greater,
    wide_load,
    wide_repeat,
)
from slotwise.fastcnn.wide_kernels import multiply
from slotwise.fastcnn.wide_norm import add_maps, normalise
from slotwise.fastcnn.wide_plan import (
    CONVOLUTION,
    MEAN_POOL,
    NORMALISATION,
    PATCH,
    SUM,
    WidePlan,
    WideWorkspace,
)
from slotwise.fastcnn.winograd import convolve_patches

Floats = NDArray[np.float32]
Places = NDArray[np.int32]
Images = NDArray[np.uint8]
Kept = NDArray[np.bool_]


@compiled
def add_row(count: int, values: Floats, sums: Floats) -> None:
    """Add a row of numbers to another one."""
    for number in range(count):
        sums[number] += values[number]


@compiled
def spatial_forward(
    plan: WidePlan, work: WideWorkspace, layer: Any, kept: Kept, values: Floats, winners: Places
) -> None:
    """Fill the output of a layer of maps for one sample."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    if layer.kind == CONVOLUTION:
        convolve(layer, source, target, work, values, winners)
    elif layer.kind == MEAN_POOL:
        mean_pool(layer, source, target, values)
    elif layer.kind == NORMALISATION:
        normalise(layer, source, target, work, values)
    elif layer.kind == SUM:
        add_maps(plan, layer, source, target, values)
    else:
        max_pool(layer, source, target, values, winners)
    if layer.drop_start >= 0 and kept.size > 0:
        drop(plan, layer, target, kept, values[target.start :])


@compiled
def read_image(plan: WidePlan, image: Images, values: Floats) -> None:
    """Standardise an image into its map, channels last."""
    place = plan.maps[0]
    size = place.height * place.width
    for channel in range(place.channels):
        factor, shift = plan.factor[channel], plan.shift[channel]
        for y in range(place.height):
            source, target = channel * size + y * place.width, place.start + y * place.row + channel
            for x in range(place.width):
                pixel = np.float32(image[np.uintp(source + x)])
                values[np.uintp(target + x * place.pixel)] = factor * pixel + shift


@compiled
def rectify(count: int, values: Floats) -> None:
    """values = relu(values), in place. NaN stays."""
    zero = wide_repeat(np.float32(0))
    for at in range(0, count, WIDE):
        value = wide_load(values, at)
        store(values, at, where_greater(zero, value, zero, value))


@compiled
def drop(plan: WidePlan, layer: Any, place: Any, kept: Kept, values: Floats) -> None:
    """Multiply a map, or its errors, by the factors of dropout."""
    for y in range(place.height):
        for x in range(place.width):
            at = y * place.row + x * place.pixel
            first = layer.drop_start + y * layer.drop_row + x * layer.drop_column
            for channel in range(place.channels):
                number = first + channel * layer.drop_channel
                values[at + channel] *= plan.keep_scale[number] if kept[number] else np.float32(0)


@compiled
def convolve(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, winners: Places
) -> None:
    """Fill the output of a convolution, after its pool and relu."""
    panels, bias, scratch = work.copies[layer.weight_start :], work.copies[layer.bias_start :], work.scratch
    corner = source.start - layer.padding * (source.row + source.pixel)
    stride, down = layer.stride * source.pixel, layer.stride * source.row
    floor = wide_repeat(np.float32(0) if layer.rectify else np.float32(-np.inf))
    rows, width = 1 + layer.pooled, (1 + layer.pooled) * target.width
    pitch = layer.row * (layer.map_width + WIDE)
    if layer.patches > 0:
        to, step = 0, pitch
        if not layer.pooled:
            to, step = target.start, target.row
        convolve_patches(
            layer.kernel_height, work, layer.patches, layer.patches_together,
            width // (PATCH + 1 - layer.kernel_height), values, corner, source.row, source.pixel,
            layer.input_step, work.patch_filters[layer.patch_start :], layer.patch_step, bias, layer.row,
            layer.sum_step, scratch if layer.pooled else values, to, step,
        )  # fmt: skip
        if not layer.pooled:
            for y in range(target.height * layer.rectify):
                rectify(width * layer.row, values[target.start + y * target.row :])
            return
    for y in range(0, rows * target.height, rows):
        upper = scratch[y * pitch :] if layer.patches > 0 else scratch
        if layer.patches == 0:
            for row in range(rows):
                multiply(
                    layer.kernel_height, source.row, layer.runs, layer.run_step, layer.run_length, width,
                    values, corner + (y + row) * down, stride, panels, bias, layer.row,
                    scratch[row * pitch :], layer.row,
                )  # fmt: skip
        if layer.pooled:
            won = winners[layer.winner_start + y // 2 * target.width * layer.row :]
            pooled = values[target.start + y // 2 * target.row :]
            pool_row(layer, target.width, stride, down, floor, upper, upper[pitch:], won, pooled)
        else:
            found = values[target.start + y * target.row :]
            for at in range(0, width * layer.row, WIDE):
                value = wide_load(upper, at)
                store(found, at, where_greater(floor, value, floor, value))


@compiled
def pool_row(
    layer: Any, width: int, right: int, down: int, floor: Any, upper: Floats, lower: Floats, winners: Places,
    found: Floats,
) -> None:  # fmt: skip
    """Keep the greatest of each window of two rows, and its distance from the corner in the inputs."""
    places = (
        wide_repeat(np.float32(0)),
        wide_repeat(np.float32(right)),
        wide_repeat(np.float32(down)),
        wide_repeat(np.float32(down + right)),
    )
    for x in range(width):
        for channel in range(0, layer.row, WIDE):
            at = 2 * x * layer.row + channel
            a, b = wide_load(upper, at), wide_load(upper, at + layer.row)
            c, d = wide_load(lower, at), wide_load(lower, at + layer.row)
            # Of equal numbers the first in reading order wins.
            above, above_place = where_greater(b, a, b, a), where_greater(b, a, places[1], places[0])
            below, below_place = where_greater(d, c, d, c), where_greater(d, c, places[3], places[2])
            greatest = where_greater(below, above, below, above)
            store(found, x * layer.row + channel, where_greater(floor, greatest, floor, greatest))
            store_whole(
                winners, x * layer.row + channel, where_greater(below, above, below_place, above_place)
            )


@compiled
def mean_pool(layer: Any, source: Any, target: Any, values: Floats) -> None:
    """Fill the output of an average pool."""
    share = np.float32(1.0 / (layer.kernel_height * layer.kernel_width))
    whole = source.pixel // WIDE * WIDE  # channels that are vectors: all but those of images
    for y in range(target.height):
        for x in range(target.width):
            found = values[target.start + y * target.row + x * target.pixel :]
            corner = source.start + y * layer.stride * source.row + x * layer.run_step * source.pixel
            for channel in range(0, whole, WIDE):
                sums = wide_repeat(np.float32(0))
                for row in range(layer.kernel_height):
                    for column in range(layer.kernel_width):
                        at = corner + row * source.row + column * source.pixel + channel
                        sums = add(sums, wide_load(values, at))
                store(found, channel, times(sums, wide_repeat(share)))
            for channel in range(whole, target.channels):
                total = np.float32(0)
                for row in range(layer.kernel_height):
                    for column in range(layer.kernel_width):
                        total += values[corner + row * source.row + column * source.pixel + channel]
                found[channel] = total * share
            if layer.rectify:
                rectify(layer.row, found)


@compiled
def max_pool(layer: Any, source: Any, target: Any, values: Floats, winners: Places) -> None:
    """Fill the output of a max-pool, and where in the source the maxima were."""
    for y in range(target.height):
        for x in range(target.width):
            found = values[target.start + y * target.row + x * target.pixel :]
            won = winners[layer.winner_start + (y * target.width + x) * layer.row :]
            corner = source.start + y * layer.stride * source.row + x * layer.run_step * source.pixel
            for channel in range(target.channels):
                best = corner + channel
                for row in range(layer.kernel_height):
                    for column in range(layer.kernel_width):
                        at = corner + row * source.row + column * source.pixel + channel
                        if values[at] > values[best] or values[at] != values[at]:
                            best = at
                found[channel] = values[best]
                won[channel] = best - source.start
            if layer.rectify:
                rectify(layer.row, found)
