"""Blocks of eight samples through the whole network, forward and backward; loops over blocks and steps.

Eight samples at a time keep everything they touch inside a core's own cache, so that cores do not wait for
each other. All functions touch their arguments only.

The eight samples are the lanes of a vector. Weights of dense layers lie as [block of eight inputs, output,
input of the block], so that their three products read them in order, and use each activation they load eight
times.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn import convolution
from slotwise.fastcnn.architecture import LANES, Plan, Workspace
from slotwise.fastcnn.vectors import (
    SOURCES,
    add,
    broadcast,
    compiled,
    entry,
    inlined,
    lane_sum,
    load,
    load_tile,
    outer_add,
    repeat,
    scaled_add,
    store,
    store_tile,
    transpose,
    where_greater,
    where_positive,
)

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Places = NDArray[np.int32]
Images = NDArray[np.uint8]


@entry
def descend(
    plan: Plan, work: Workspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
    lengths: Numbers, kept: Floats, rate: float, _sources: str = SOURCES,
) -> float:  # fmt: skip
    """Take one step of gradient descent per batch, from the model on; return the mean loss of the last batch.

    Batches and answers are [step, sample]: numbers of images, and their labels; of the samples of a step the
    first ``lengths[step]`` are used. ``kept`` is [step, block of
    eight samples, lanes of factors]: 0 for what dropout drops, channels first and then inputs of the last
    dense layer; without dropout it has no factors. Leaves the parameters and the gradient of the last batch
    in the workspace.
    """
    read_model(plan, work, model)
    loss = 0.0
    for step in range(len(batches)):
        chosen, labels = batches[step, : lengths[step]], answers[step, : lengths[step]]
        loss = differentiate(plan, work, images, chosen, labels, kept[step])
        update(plan.source, work.parameters, work.gradient, np.float32(rate))
        # `packed` and `shifted` are copies of the filters and have to follow them.
        arrange_filters(plan, work)
    return loss


@entry
def evaluate(
    plan: Plan, work: Workspace, model: Floats, images: Images, labels: Numbers, _sources: str = SOURCES
) -> tuple[float, int]:
    """Sum of the losses, and how many samples are classified correctly."""
    read_model(plan, work, model)
    classes = plan.denses[-1].outputs
    chosen, everything = np.empty(LANES, np.int64), np.empty(0, np.float32)
    loss, correct = 0.0, 0
    for start in range(0, len(images), LANES):
        samples = min(LANES, len(images) - start)
        for lane in range(samples):
            chosen[lane] = start + lane
        scores = forward_pass(plan, work, images, chosen[:samples], everything)
        answers = labels[start : start + samples]
        # Only the loss is used; nothing reads these errors.
        loss += output_errors(classes, scores, answers, samples, 1.0, work.errors)
        for lane in range(samples):
            best = 0  # the first of equal scores counts
            for number in range(1, classes):
                if scores[LANES * number + lane] > scores[LANES * best + lane]:
                    best = number
            correct += best == answers[lane]
    return loss, correct


@entry
def write_model(source: Places, values: Floats, model: Floats, _sources: str = SOURCES) -> None:
    """Bring parameters, or their gradient, back into the model's order."""
    for number in range(source.size):
        if source[number] >= 0:
            model[source[number]] = values[number]


@inlined
def read_model(plan: Plan, work: Workspace, model: Floats) -> None:
    """Bring a model into the order the kernels use."""
    for number in range(plan.source.size):
        work.parameters[number] = model[plan.source[number]] if plan.source[number] >= 0 else np.float32(0)
    arrange_filters(plan, work)


@compiled
def update(source: Places, parameters: Floats, gradient: Floats, rate: np.float32) -> None:
    """One step down the gradient. Padding stays zero, whatever has gathered in its gradient."""
    for number in range(source.size):
        step = rate * gradient[number]
        parameters[number] -= step if source[number] >= 0 else np.float32(0)


@inlined
def arrange_filters(plan: Plan, work: Workspace) -> None:
    """Copy the filters to the orders in which the forward and the backward pass read them."""
    for layer in plan.convolutions:
        weights = work.parameters[layer.weight_start :]
        convolution.pack_filters(layer, weights, work.packed[layer.packed_start :])
        convolution.shift_filters(layer, weights, work.shifted[layer.shifted_start :])


@inlined
def differentiate(
    plan: Plan, work: Workspace, images: Images, batch: Numbers, answers: Numbers, kept: Floats
) -> float:
    """Leave the gradient of the mean loss over a batch in the workspace; return the mean loss."""
    work.gradient[:] = 0
    last = plan.denses[-1]
    loss = 0.0
    for start in range(0, batch.size, LANES):
        chosen, labels = batch[start : start + LANES], answers[start : start + LANES]
        factors = kept[start // LANES]
        scores = forward_pass(plan, work, images, chosen, factors)
        errors = work.errors[LANES * last.output_start :]
        loss += output_errors(last.outputs, scores, labels, chosen.size, 1.0 / batch.size, errors)
        for number in range(len(plan.denses) - 1, -1, -1):
            first = number == 0 and len(plan.convolutions) == 0
            # A single dense layer has the inputs of both dropouts, so both factors may apply.
            scale = 1.0
            if factors.size > 0 and number == len(plan.denses) - 1:
                scale *= plan.keep_scale
            if factors.size > 0 and number == 0 and plan.dropped_channels > 0:
                scale *= plan.keep_scale
            dense_backward(work, plan.denses[number], chosen.size, first, scale)
        for number in range(len(plan.convolutions) - 1, -1, -1):
            convolution_backward(plan, work, plan.convolutions[number], number == 0)
    return loss / batch.size


@inlined
def forward_pass(plan: Plan, work: Workspace, images: Images, chosen: Numbers, kept: Floats) -> Floats:
    """Scores of up to eight images, as lanes. Without factors in ``kept`` nothing is dropped."""
    read_images(plan, images, chosen, work.error_rows, work.lanes)
    for layer in plan.convolutions:
        steps, packed = plan.tap_steps[layer.taps_start :], work.packed[layer.packed_start :]
        bias, inputs = work.parameters[layer.bias_start :], work.lanes[LANES * layer.input_start :]
        start = LANES * layer.output_start
        convolution.convolve(layer, steps, packed, bias, inputs, work.lanes[start:], work.winners[start:])
    last = len(plan.denses) - 1
    for number, dense in enumerate(plan.denses):
        if kept.size > 0 and number == 0 and plan.dropped_channels > 0:
            drop(dense.inputs, plan.dropped_channels, kept, work.lanes[LANES * dense.input_start :])
        if kept.size > 0 and number == last:
            units = kept[LANES * plan.dropped_channels :]
            drop(dense.inputs, dense.inputs, units, work.lanes[LANES * dense.input_start :])
        weights, bias = work.parameters[dense.weight_start :], work.parameters[dense.bias_start :]
        inputs, outputs = work.lanes[LANES * dense.input_start :], work.lanes[LANES * dense.output_start :]
        dense_forward(dense, weights, bias, inputs, outputs, number < last)
    return work.lanes[LANES * plan.denses[-1].output_start :]


@inlined
def dense_backward(work: Workspace, layer: Any, samples: int, first: bool, scale: float) -> None:
    """Gradient of a dense layer, and errors of its inputs unless they are the images.

    ``scale`` is the factor of the inputs that dropout kept. Those it dropped are 0, so they get no error.
    """
    lanes, rows = work.lanes[LANES * layer.input_start :], work.rows[LANES * layer.input_start :]
    errors = work.errors[LANES * layer.output_start :]
    lanes_to_rows(layer.inputs, layer.input_stride, lanes, rows)
    if not first:
        found = work.errors[LANES * layer.input_start :]
        input_errors(layer, work.parameters[layer.weight_start :], errors, lanes, found)
        if scale != 1.0:
            scale_errors(layer.inputs, scale, found)
    add_weight_gradient(layer, errors, rows, samples, work.gradient[layer.weight_start :])
    add_bias_gradient(layer.outputs, 1, errors, work.gradient[layer.bias_start :])


@inlined
def convolution_backward(plan: Plan, work: Workspace, layer: Any, first: bool) -> None:
    """Gradient of a convolution, and errors of its inputs unless they are the images."""
    lanes, rows = work.lanes[LANES * layer.input_start :], work.rows[LANES * layer.input_start :]
    errors, winners = work.errors[LANES * layer.output_start :], work.winners[LANES * layer.output_start :]
    steps, places, amounts = plan.piece_steps[layer.pieces_start :], work.places, work.amounts
    # `input_errors` or `errors_to_lanes` has set the errors to zero where relu stopped the output.
    lanes_to_rows(layer.values, layer.input_stride, lanes, rows)
    for output in range(layer.filters):
        gradient = work.gradient[layer.weight_start + output * layer.pieces * LANES :]
        count = convolution.list_patches(layer, output, errors, winners, places, amounts)
        convolution.add_filter_gradient(layer, steps, places, amounts, count, rows, gradient)
    windows = layer.pooled_height * layer.pooled_width
    add_bias_gradient(layer.filters, windows, errors, work.gradient[layer.bias_start :])
    if not first:
        # The patches have been processed, so the lists of filters can use the same memory.
        shifted, found = work.shifted[layer.shifted_start :], work.errors[LANES * layer.input_start :]
        work.error_rows[:] = 0
        convolution.list_filters(layer, errors, winners, places, amounts, work.ends)
        convolution.add_input_gradient(layer, places, amounts, work.ends, shifted, work.error_rows)
        errors_to_lanes(layer.values, layer.input_stride, work.error_rows, lanes, found)


@compiled
def read_images(plan: Plan, images: Images, chosen: Numbers, planes: Floats, lanes: Floats) -> None:
    """Normalise up to eight images into lanes, channels last; missing samples are blank.

    `planes` is room for eight images, channels first as they come.
    """
    stride, channels = plan.image_stride, plan.factor.size
    pixels = images.shape[1] // channels
    # First convert plane by plane, which reads and writes consecutive numbers, then transpose blocks of eight
    # pixels and eight samples.
    for sample in range(LANES):
        for channel in range(channels):
            start = sample * stride + channel * pixels
            plane = planes[start : start + pixels]
            if sample < chosen.size:
                factor, shift = plan.factor[channel], plan.shift[channel]
                image = images[chosen[sample], channel * pixels : (channel + 1) * pixels]
                for pixel in range(pixels):
                    plane[pixel] = factor * np.float32(image[pixel]) + shift
            else:
                plane[:] = 0
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    step = LANES * channels
    for channel in range(channels):
        for pixel in range(0, pixels, LANES):
            # The last block of a channel may read pixels of the next. It stores them after the last pixel.
            found = transpose(load_tile(planes, channel * pixels + pixel, stride, eight))
            store_tile(lanes, step * pixel + LANES * channel, step, found)


@compiled
def lanes_to_rows(values: int, stride: int, lanes: Floats, rows: Floats) -> None:
    """rows[sample, value] = lanes[value, sample]."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, values, LANES):
        store_tile(rows, value, stride, transpose(load_tile(lanes, LANES * value, LANES, eight)))


@compiled
def errors_to_lanes(values: int, stride: int, rows: Floats, activations: Floats, errors: Floats) -> None:
    """errors[value, sample] = rows[sample, value] where the activation > 0, else 0: back through relu."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, values, LANES):
        found = transpose(load_tile(rows, value, stride, eight))
        store_tile(errors, LANES * value, LANES, where_positive(found, activations, LANES * value))


@compiled
def add_bias_gradient(outputs: int, windows: int, errors: Floats, gradient: Floats) -> None:
    """gradient[o] += sum over windows p and samples s of errors[p, o, s]; a dense layer has one window."""
    zero = repeat(np.float32(0))
    output = 0
    while output + 5 <= outputs:  # five sums at once: one addition need not wait for the one before
        a, b, c, d, e = zero, zero, zero, zero, zero
        for window in range(windows):
            at = LANES * (window * outputs + output)
            a, b = add(a, load(errors, at)), add(b, load(errors, at + LANES))
            c, d = add(c, load(errors, at + 2 * LANES)), add(d, load(errors, at + 3 * LANES))
            e = add(e, load(errors, at + 4 * LANES))
        for number, total in enumerate((a, b, c, d, e)):
            gradient[output + number] += lane_sum(total)
        output += 5
    while output < outputs:
        total = zero
        for window in range(windows):
            total = add(total, load(errors, LANES * (window * outputs + output)))
        gradient[output] += lane_sum(total)
        output += 1


@compiled
def drop(values: int, channels: int, kept: Floats, lanes: Floats) -> None:
    """lanes[v, sample] *= kept[v % channels, sample], in place."""
    for start in range(0, LANES * values, LANES * channels):
        for at in range(LANES * channels):
            lanes[start + at] *= kept[at]


@compiled
def scale_errors(values: int, factor: float, errors: Floats) -> None:
    """errors[v, sample] *= factor, in place."""
    for at in range(LANES * values):
        errors[at] *= np.float32(factor)


@compiled
def dense_forward(
    layer: Any, weights: Floats, bias: Floats, inputs: Floats, outputs: Floats, rectify: bool
) -> None:
    """outputs[o] = bias[o] + sum over i of weights[o, i] * inputs[i], then relu if asked for."""
    zero, one = repeat(np.float32(0)), repeat(np.float32(1))
    for output in range(0, layer.outputs, 8):
        # The product with one puts each bias into all lanes of its sum.
        total = outer_add((zero, zero, zero, zero, zero, zero, zero, zero), bias, output, 1, one)
        for number in range(layer.inputs):
            at = number // LANES * layer.block + LANES * output + number % LANES
            total = outer_add(total, weights, at, LANES, load(inputs, LANES * number))
        store_tile(outputs, LANES * output, LANES, total)
    if rectify:
        for at in range(0, LANES * layer.outputs, LANES):
            value = load(outputs, at)
            store(outputs, at, where_greater(zero, value, zero, value))


@compiled
def add_weight_gradient(layer: Any, errors: Floats, rows: Floats, samples: int, gradient: Floats) -> None:
    """gradient[o, i] += sum over samples s of errors[o, s] * rows[s, i]."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for column in range(0, layer.inputs, 8 * LANES):
        for output in range(layer.outputs):
            at = column // LANES * layer.block + LANES * output
            # The last tile may reach past the inputs, into padding of the gradient, which `update` ignores.
            total = load_tile(gradient, at, layer.block, eight)
            for sample in range(samples):
                error = broadcast(errors, LANES * output + sample)
                total = scaled_add(total, error, rows, sample * layer.input_stride + column)
            store_tile(gradient, at, layer.block, total)


@compiled
def input_errors(layer: Any, weights: Floats, errors: Floats, inputs: Floats, found: Floats) -> None:
    """found[i] = sum over o of weights[o, i] * errors[o] where input i > 0, else 0: back through relu."""
    zero = repeat(np.float32(0))
    for number in range(0, layer.inputs, LANES):
        total = (zero, zero, zero, zero, zero, zero, zero, zero)
        start = number // LANES * layer.block
        for at in range(0, LANES * layer.outputs, LANES):
            total = outer_add(total, weights, start + at, 1, load(errors, at))
        store_tile(found, LANES * number, LANES, where_positive(total, inputs, LANES * number))


@compiled
def output_errors(
    classes: int, scores: Floats, labels: Numbers, samples: int, weight: float, errors: Floats
) -> float:
    """Return the cross-entropy summed over samples; store its gradient by the scores, times `weight`.

    loss = log(sum over c of exp(score[c])) - score[label], error[c] = exp(score[c]) / sum - (c == label).
    """
    loss = 0.0
    # Lanes without a sample keep zero errors, so that they add nothing to any gradient.
    errors[: LANES * classes] = 0
    for lane in range(samples):
        # With the highest score subtracted, exp cannot overflow and the sum is at least 1.
        highest = scores[lane]
        for at in range(lane, LANES * classes, LANES):
            highest = max(highest, scores[at])
        total = 0.0
        for at in range(lane, LANES * classes, LANES):
            share = exp(np.float64(scores[at] - highest))
            errors[at] = share
            total += share
        for at in range(lane, LANES * classes, LANES):
            errors[at] *= weight / total
        # In double precision: for a share close to 1, float32 would leave few digits of share - 1.
        right = LANES * labels[lane] + lane
        below = np.float64(scores[right] - highest)
        errors[right] = weight * (exp(below) / total - 1.0)
        loss += log(total) - below
    return loss
