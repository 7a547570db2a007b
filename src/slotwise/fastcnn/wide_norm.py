"""Group normalisation, and sums of two outputs: layers of maps that do the same to every position.

With mean m and deviation s = sqrt(variance + epsilon) of a group in one sample, a value x of channel c
becomes w[c] (x - m) / s + b[c]. If e is the gradient of the loss by that output and n the number of values of
the group,

    gradient of w[c] = sum of e (x - m) / s,      gradient of b[c] = sum of e,
    gradient of x = (w[c] e - A / n - B / n (x - m) / s) / s

with A the sum over the group's channels of w times the gradient of b, and B of w times the gradient of w.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import (
    WIDE,
    add,
    compiled,
    store,
    times,
    times_plus,
    where_greater,
    wide_load,
    wide_repeat,
)
from slotwise.fastcnn.wide_plan import WidePlan, WideWorkspace

Floats = NDArray[np.float32]


@compiled
def add_maps(plan: WidePlan, layer: Any, source: Any, target: Any, values: Floats) -> None:
    """Fill the output of a sum; without a second source it is a copy."""
    floor = wide_repeat(np.float32(0) if layer.rectify else np.float32(-np.inf))
    other = plan.maps[max(layer.other, 0)]
    for y in range(target.height):
        one, two = values[source.start + y * source.row :], values[other.start + y * other.row :]
        found = values[target.start + y * target.row :]
        for at in range(0, target.width * target.pixel, WIDE):
            value = wide_load(one, at)
            if layer.other > 0:
                value = add(value, wide_load(two, at))
            store(found, at, where_greater(floor, value, floor, value))


@compiled
def sum_backward(
    plan: WidePlan, layer: Any, source: Any, target: Any, work: WideWorkspace, errors: Floats
) -> None:
    """Bring the errors of a sum to both of its sources."""
    copy_errors(source, target.row, errors, work.errors[source.error_start :], layer.adds)
    if layer.other > 0:
        other = plan.maps[layer.other]
        copy_errors(other, target.row, errors, work.errors[other.error_start :], layer.adds_other)


@compiled
def copy_errors(place: Any, row: int, errors: Floats, found: Floats, adds: bool) -> None:
    """Copy errors whose rows are `row` apart to a map of this place, or add them to it."""
    for y in range(place.height):
        own, to = errors[y * row :], found[y * place.row :]
        for at in range(0, place.width * place.pixel, WIDE):
            error = wide_load(own, at)
            store(to, at, add(wide_load(to, at), error) if adds else error)


@compiled
def normalise(layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats) -> None:
    """Fill the output of a group normalisation, and keep means and 1 / deviations of its channels."""
    row, inputs, found = layer.row, values[source.start :], values[target.start :]
    means, inverses = values[layer.moments :], values[layer.moments + row :]
    zero = wide_repeat(np.float32(0))
    floor = wide_repeat(np.float32(0) if layer.rectify else np.float32(-np.inf))
    for channel in range(0, row, WIDE):
        store(work.scratch, channel, sum_powers(source, channel, inputs, zero, False))
    share_by_groups(layer, source, work.scratch, means)
    for channel in range(0, row, WIDE):
        sums = sum_powers(source, channel, inputs, wide_load(means, channel), True)
        store(work.scratch, channel, sums)
    share_by_groups(layer, source, work.scratch, inverses)
    for channel in range(layer.outputs):
        inverses[channel] = 1.0 / sqrt(np.float64(inverses[channel]) + layer.epsilon)
    for channel in range(0, row, WIDE):
        mean, factor, added = wide_load(means, channel), wide_load(inverses, channel), zero
        if layer.affine:
            factor = times(factor, wide_load(work.copies, layer.weight_start + channel))
            added = wide_load(work.copies, layer.bias_start + channel)
        opposite = times(mean, wide_repeat(np.float32(-1)))
        for y in range(target.height):
            at, to = y * source.row + channel, y * target.row + channel
            for _ in range(target.width):
                value = times_plus(factor, add(wide_load(inputs, at), opposite), added)
                store(found, to, where_greater(floor, value, floor, value))
                at += row
                to += row


@compiled
def sum_powers(place: Any, channel: int, values: Floats, mean: Any, squared: bool) -> Any:
    """Sum a vector of channels over all positions: the values, or squares of what they differ from a mean."""
    zero = wide_repeat(np.float32(0))
    opposite = times(mean, wide_repeat(np.float32(-1)))
    even, odd = zero, zero
    for y in range(place.height):
        at = y * place.row + channel
        for _ in range(place.width // 2):
            one, other = wide_load(values, at), wide_load(values, at + place.pixel)
            if squared:
                one, other = add(one, opposite), add(other, opposite)
                even, odd = times_plus(one, one, even), times_plus(other, other, odd)
            else:
                even, odd = add(even, one), add(odd, other)
            at += 2 * place.pixel
        if place.width % 2:
            one = wide_load(values, at)
            if squared:
                one = add(one, opposite)
                even = times_plus(one, one, even)
            else:
                even = add(even, one)
    return add(even, odd)


@compiled
def share_by_groups(layer: Any, place: Any, sums: Floats, found: Floats) -> None:
    """Give each channel its group's share of the sums: their total by the number of values."""
    channels = layer.outputs // layer.groups
    for first in range(0, layer.outputs, channels):
        total = 0.0
        for channel in range(first, first + channels):
            total += sums[channel]
        share = np.float32(total / (channels * place.height * place.width))
        for channel in range(first, first + channels):
            found[channel] = share


@compiled
def normalisation_backward(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, errors: Floats
) -> None:
    """Gradient of a group normalisation, and errors of its inputs."""
    row, inputs, found = layer.row, values[source.start :], work.errors[source.error_start :]
    means, inverses = values[layer.moments :], values[layer.moments + row :]
    # Of each channel the sums of e and of e (x - m), then of its group what the errors of x get.
    sums, products = work.scratch[:row], work.scratch[row:]
    constants, slopes = work.scratch[2 * row :], work.scratch[3 * row :]
    for channel in range(0, row, WIDE):
        sum_errors(source, target, channel, inputs, wide_load(means, channel), errors, sums, products)
    for channel in range(layer.outputs):
        products[channel] *= inverses[channel]
        if layer.affine:
            work.gradient[layer.gradient_start + channel] += products[channel]
            work.gradient[layer.bias_gradient + channel] += sums[channel]
            weight = work.copies[layer.weight_start + channel]
            products[channel] *= weight
            sums[channel] *= weight
    share_by_groups(layer, source, sums, constants)
    share_by_groups(layer, source, products, slopes)
    for channel in range(0, row, WIDE):
        inverse, opposite = (
            wide_load(inverses, channel),
            times(wide_load(inverses, channel), wide_repeat(np.float32(-1))),
        )
        constant = times(opposite, wide_load(constants, channel))
        slope = times(times(opposite, inverse), wide_load(slopes, channel))
        minus = times(wide_load(means, channel), wide_repeat(np.float32(-1)))
        factor = inverse
        if layer.affine:
            factor = times(inverse, wide_load(work.copies, layer.weight_start + channel))
        for y in range(target.height):
            at, error = y * source.row + channel, y * target.row + channel
            for _ in range(target.width):
                value = times_plus(slope, add(wide_load(inputs, at), minus), constant)
                value = times_plus(factor, wide_load(errors, error), value)
                if layer.adds:
                    value = add(value, wide_load(found, at))
                store(found, at, value)
                at += row
                error += row


@compiled
def sum_errors(
    source: Any, target: Any, channel: int, inputs: Floats, mean: Any, errors: Floats, sums: Floats,
    products: Floats,
) -> None:  # fmt: skip
    """Sum, for a vector of channels, the errors of all positions, and the errors times (x - m)."""
    zero = wide_repeat(np.float32(0))
    minus = times(mean, wide_repeat(np.float32(-1)))
    even, odd, first, second = zero, zero, zero, zero
    for y in range(target.height):
        at, error = y * source.row + channel, y * target.row + channel
        for _ in range(target.width // 2):
            one, other = wide_load(errors, error), wide_load(errors, error + target.pixel)
            even, odd = add(even, one), add(odd, other)
            first = times_plus(one, add(wide_load(inputs, at), minus), first)
            second = times_plus(other, add(wide_load(inputs, at + source.pixel), minus), second)
            at += 2 * source.pixel
            error += 2 * target.pixel
        if target.width % 2:
            one = wide_load(errors, error)
            even = add(even, one)
            first = times_plus(one, add(wide_load(inputs, at), minus), first)
    store(sums, channel, add(even, odd))
    store(products, channel, add(first, second))
