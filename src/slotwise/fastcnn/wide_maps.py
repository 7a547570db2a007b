"""Layers whose outputs are maps, for one sample: convolutions and pools, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import (
    WIDE,
    compiled,
    store,
    store_whole,
    where_greater,
    wide_load,
    wide_repeat,
)
from slotwise.fastcnn.wide_kernels import add_filter, add_patches, add_products, multiply
from slotwise.fastcnn.wide_plan import CONVOLUTION, MAX_POOL, MEAN_POOL, WidePlan, WideWorkspace

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
    if layer.pooled:
        second = scratch[layer.row * (layer.map_width + WIDE) :]
        for y in range(target.height):
            for row, found in ((2 * y, scratch), (2 * y + 1, second)):
                multiply(
                    layer.kernel_height, source.row, layer.runs, layer.run_step, layer.run_length,
                    2 * target.width, values, corner + row * down, stride, panels, bias, layer.row, found,
                    layer.row,
                )  # fmt: skip
            won = winners[layer.winner_start + y * target.width * layer.row :]
            pooled = values[target.start + y * target.row :]
            pool_row(layer, target.width, stride, down, floor, scratch, second, won, pooled)
    else:
        for y in range(target.height):
            multiply(
                layer.kernel_height, source.row, layer.runs, layer.run_step, layer.run_length, target.width,
                values, corner + y * down, stride, panels, bias, layer.row, scratch, layer.row,
            )  # fmt: skip
            found = values[target.start + y * target.row :]
            for at in range(0, target.width * layer.row, WIDE):
                value = wide_load(scratch, at)
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
    for y in range(target.height):
        for x in range(target.width):
            found = values[target.start + y * target.row + x * target.pixel :]
            corner = source.start + y * layer.stride * source.row + x * layer.run_step * source.pixel
            for channel in range(target.channels):
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


@compiled
def through_dropout_and_relu(
    plan: WidePlan, layer: Any, target: Any, kept: Kept, values: Floats, errors: Floats
) -> None:
    """Turn the errors of the output of a layer into those before its dropout and its relu."""
    if layer.drop_start >= 0 and kept.size > 0:
        drop(plan, layer, target, kept, errors)
    if layer.rectify:
        zero = wide_repeat(np.float32(0))
        for y in range(target.height):
            for at in range(y * target.row, y * target.row + target.width * target.pixel, WIDE):
                error = wide_load(errors, at)
                store(errors, at, where_greater(wide_load(values, target.start + at), zero, error, zero))


@compiled
def spatial_backward(plan: WidePlan, work: WideWorkspace, layer: Any, sample: int, kept: Kept) -> None:
    """Gradient of a layer of maps for one sample, and errors of its inputs unless they are the image."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    values = work.values[sample * plan.values :]
    errors = work.errors[target.error_start :]
    if target.batched:
        errors = work.dense_errors[sample * plan.dense_errors + target.error_start :]
    through_dropout_and_relu(plan, layer, target, kept, values, errors)
    winners = work.winners[sample * plan.winners + layer.winner_start :]
    if layer.kind == CONVOLUTION and not layer.pooled:
        convolution_backward(layer, source, target, work, values, errors)
        return
    found_start = source.error_start - (source.start - source.first)
    if not layer.first:
        work.errors[found_start : found_start + source.size] = 0
    if layer.kind == CONVOLUTION:
        pooled_backward(plan, layer, source, target, work, values, winners, errors)
    elif not layer.first:
        pool_backward(layer, source, target, winners, errors, work.errors[source.error_start :])


@compiled
def pool_backward(
    layer: Any, source: Any, target: Any, winners: Places, errors: Floats, found: Floats
) -> None:
    """Add the errors of a pool's outputs to those of its inputs."""
    share = np.float32(1.0 / (layer.kernel_height * layer.kernel_width))
    for y in range(target.height):
        for x in range(target.width):
            at = y * target.row + x * target.pixel
            if layer.kind == MAX_POOL:
                won = (y * target.width + x) * layer.row
                for channel in range(target.channels):
                    found[winners[won + channel]] += errors[at + channel]
            else:
                corner = y * layer.stride * source.row + x * layer.run_step * source.pixel
                for row in range(layer.kernel_height):
                    for column in range(layer.kernel_width):
                        place = corner + row * source.row + column * source.pixel
                        for channel in range(target.channels):
                            found[place + channel] += share * errors[at + channel]


@compiled
def convolution_backward(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, errors: Floats
) -> None:
    """Gradient of a convolution without a pool, and errors of its inputs unless they are the image."""
    for y in range(target.height):
        if layer.has_bias:
            for x in range(target.width):
                at = y * target.row + x * target.pixel
                add_row(layer.row, errors[at:], work.gradient[layer.bias_gradient :])
    corner = source.start - layer.padding * (source.row + source.pixel)
    add_products(
        layer, source.row, target.height, target.width, values, corner, layer.stride * source.row,
        layer.stride * source.pixel, errors, 0, target.row, target.pixel,
        work.gradient[layer.gradient_start :], work.scratch,
    )  # fmt: skip
    if layer.first:
        return
    # The errors with zeros around and between them, which have been zero since they were allocated.
    for y in range(target.height):
        for x in range(target.width):
            at = layer.pre_start + layer.stride * (y * layer.pre_row + x * layer.row)
            for number in range(0, layer.row, WIDE):
                store(work.errors, at + number, wide_load(errors, y * target.row + x * target.pixel + number))
    whole = layer.outputs == layer.row
    runs, length = (1, layer.kernel_width * layer.row) if whole else (layer.kernel_width, layer.outputs)
    up, left = layer.padding - layer.kernel_height + 1, layer.padding - layer.kernel_width + 1
    for y in range(source.height):
        start = layer.pre_start + (y + up) * layer.pre_row + left * layer.row
        multiply(
            layer.kernel_height, layer.pre_row, runs, layer.row, length, source.width, work.errors, start,
            layer.row, work.copies[layer.back_start :], work.zeros, source.pixel,
            work.errors[source.error_start + y * source.row :], source.pixel,
        )  # fmt: skip


@compiled
def pooled_backward(
    plan: WidePlan, layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats,
    winners: Places, errors: Floats,
) -> None:  # fmt: skip
    """Gradient of a convolution with a pool, and errors of its inputs, from the errors that are not zero."""
    padding = layer.padding * (source.row + source.pixel)
    inputs = values[source.start - padding :]
    down, right = 2 * layer.stride * source.row, 2 * layer.stride * source.pixel
    places, amounts = work.places, work.scratch
    for output in range(layer.outputs):
        count, total = 0, np.float32(0)
        for y in range(target.height):
            for x in range(target.width):
                error = errors[np.uintp(y * target.row + x * target.pixel + output)]
                won = winners[np.uintp((y * target.width + x) * layer.row + output)]
                # Always written, and kept only if not zero: there is no branch to predict wrongly.
                places[np.uintp(count)] = y * down + x * right + won
                amounts[np.uintp(count)] = error
                total += error
                count += error != np.float32(0)
        work.gradient[layer.bias_gradient + output] += total
        gradient = work.gradient[layer.gradient_start + output * layer.filter_size :]
        add_patches(layer, plan.piece_steps[layer.pieces_start :], places, amounts, count, inputs, gradient)
        if not layer.first:
            filters = work.copies[layer.back_start + output * layer.filter_size :]
            for number in range(count):
                place = source.error_start - padding + places[np.uintp(number)]
                add_filter(layer, source.row, filters, number, amounts, work.errors[place:])
