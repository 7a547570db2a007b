"""Training and evaluation of a network of dense layers: multinomial logistic regression and MLPs.

The first layer has almost all the weights, and its inputs are bytes, many of them zero (81 % in MNIST). A
pixel x is standardised as factor * x + shift, so that

    sum of (factor * x[p] + shift) * w[p] = shift * (sum of w[p]) + sum of factor * x[p] * w[p]

where the first sum is the same for all samples, and the second needs only the pixels that are not zero. The
gradient of w[p] has the same two parts. Weights lie as [input, output], so that one pixel of one sample is a
multiple of one row of weights added to one row of sums. Pixels are taken 64 at a time: their weights then
stay in the nearest cache while all samples of the block use them.

Blocks of 64 samples go through the network together. If the batch is one block, its gradient is never
stored: it is added to the weights, times minus the step size, row by row.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.architecture import LANES
from slotwise.learning.fastcnn.bits import copy_bytes, exponential, lane_max, lowest_bit, transpose_bits
from slotwise.learning.fastcnn.dense_layout import BLOCK, DensePlan, DenseWorkspace
from slotwise.learning.fastcnn.vectors import (
    SOURCES,
    Tile,
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
)

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]
Images = NDArray[np.uint8]


@entry
def descend(
    plan: DensePlan, work: DenseWorkspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
    rate: float, trained: Floats, _sources: str = SOURCES,
) -> None:  # fmt: skip
    """Take one step of gradient descent per batch, from the model on; store the new model in `trained`.

    Batches and answers are [step, sample]: numbers of images, and their labels.
    """
    read_model(plan, work, model)
    samples = batches.shape[1]
    for step in range(len(batches)):
        if samples <= BLOCK:
            add_gradient(plan, work, images, batches[step], answers[step], -rate / samples, work.parameters)
        else:
            work.gradient[:] = 0
            for start in range(0, samples, BLOCK):
                chosen, labels = batches[step, start : start + BLOCK], answers[step, start : start + BLOCK]
                add_gradient(plan, work, images, chosen, labels, -rate / samples, work.gradient)
            for number in range(work.parameters.size):
                work.parameters[number] += work.gradient[number]
    write_model(plan, work.parameters, trained)


@entry
def differentiate(
    plan: DensePlan, work: DenseWorkspace, model: Floats, images: Images, answers: Numbers, gradient: Floats,
    _sources: str = SOURCES,
) -> float:  # fmt: skip
    """Return the mean loss over all images; store its gradient, in the order of the model."""
    read_model(plan, work, model)
    work.gradient[:] = 0
    chosen = np.arange(len(images))
    loss = 0.0
    for start in range(0, len(images), BLOCK):
        block, labels = chosen[start : start + BLOCK], answers[start : start + BLOCK]
        loss += add_gradient(plan, work, images, block, labels, 1.0 / len(images), work.gradient)
    write_model(plan, work.gradient, gradient)
    return loss / len(images)


@entry
def evaluate(
    plan: DensePlan, work: DenseWorkspace, model: Floats, images: Images, labels: Numbers,
    _sources: str = SOURCES,
) -> tuple[float, int]:  # fmt: skip
    """Sum of the losses, and how many samples are classified correctly."""
    read_model(plan, work, model)
    chosen = np.arange(len(images))
    last = plan.layers[-1]
    loss, correct = 0.0, 0
    for start in range(0, len(images), BLOCK):
        block, answers = chosen[start : start + BLOCK], labels[start : start + BLOCK]
        forward_pass(plan, work, images, block)
        scores = work.activations[last.output_start :]
        loss += output_errors(last, scores, answers, 1.0, work.errors[last.output_start :])
        for sample in range(block.size):
            best = 0  # the first of equal scores counts
            for number in range(1, last.outputs):
                if scores[sample * last.row + number] > scores[sample * last.row + best]:
                    best = number
            correct += best == answers[sample]
    return loss, correct


@compiled
def add_gradient(
    plan: DensePlan, work: DenseWorkspace, images: Images, chosen: Numbers, labels: Numbers, weight: float,
    target: Floats,
) -> float:  # fmt: skip
    """Add the gradient of the summed loss of a block, times `weight`, to `target`; return the loss.

    `target` may be the parameters themselves: a layer's weights are read for the last time before its
    gradient is added.
    """
    forward_pass(plan, work, images, chosen)
    last = plan.layers[-1]
    scores, errors = work.activations[last.output_start :], work.errors[last.output_start :]
    loss = output_errors(last, scores, labels, weight, errors)
    for number in range(len(plan.layers) - 1, -1, -1):
        layer = plan.layers[number]
        errors = work.errors[layer.output_start :]
        if number == 0:
            sum_rows(layer, chosen.size, errors, work.sums)
            add_pixel_gradient(plan, layer, work, errors, target)
        else:
            before = plan.layers[number - 1]
            inputs = work.activations[before.output_start :]
            weights, found = work.parameters[layer.weight_start :], work.errors[before.output_start :]
            input_errors(layer, before.row, chosen.size, errors, weights, inputs, work.transposed, found)
            sum_rows(layer, chosen.size, errors, work.sums)
            # gradient[i, o] += sum over samples of inputs[sample, i] * errors[sample, o]
            gradient = target[layer.weight_start :]
            multiply_add(before.row, chosen.size, layer.row, inputs, 1, before.row, errors, gradient)
        bias = target[layer.bias_start :]
        for at in range(0, layer.row, LANES):
            store(bias, at, add(load(bias, at), load(work.sums, at)))
    return loss


@compiled
def forward_pass(plan: DensePlan, work: DenseWorkspace, images: Images, chosen: Numbers) -> None:
    """Fill the activations of all layers for up to 64 images."""
    read_pixels(plan, images, chosen, work.pixels, work.by_sample, work.by_pixel)
    zero = repeat(np.float32(0))
    for number in range(len(plan.layers)):
        layer = plan.layers[number]
        outputs, bias = work.activations[layer.output_start :], work.parameters[layer.bias_start :]
        if number == 0:
            for at in range(0, layer.row, LANES):
                store(work.sums, at, load(bias, at))
            add_pixels(plan, layer, work, chosen.size, outputs)
        else:
            before = plan.layers[number - 1]
            inputs, weights = work.activations[before.output_start :], work.parameters[layer.weight_start :]
            for sample in range(BLOCK):
                for at in range(0, layer.row, LANES):
                    store(outputs, sample * layer.row + at, load(bias, at))
            # outputs[sample, o] += sum over i of inputs[sample, i] * weights[i, o]
            multiply_add(chosen.size, layer.inputs, layer.row, inputs, before.row, 1, weights, outputs)
        if number < len(plan.layers) - 1:
            for at in range(0, chosen.size * layer.row, LANES):
                value = load(outputs, at)
                store(outputs, at, where_greater(zero, value, zero, value))


@compiled
def read_pixels(
    plan: DensePlan, images: Images, chosen: Numbers, pixels: Images, by_sample: Words, by_pixel: Words
) -> None:
    """Copy up to 64 images, each channel padded with zeros, and find their pixels that are not zero."""
    words = len(plan.pixels)
    by_sample[:] = 0
    for sample in range(chosen.size):
        image = images[chosen[sample]]
        for word in range(words):
            at, source = (sample * words + word) * BLOCK, plan.starts[word]
            if plan.pixels[word] == BLOCK:
                found = copy_bytes(image, source, pixels, at)
            else:
                for number in range(plan.pixels[word]):
                    pixels[np.uintp(at + number)] = image[np.uintp(source + number)]
                found = copy_bytes(pixels, at, pixels, at)
            by_sample[np.uintp(word * BLOCK + sample)] = found
    for word in range(words):
        transpose_bits(by_sample, word * BLOCK, by_pixel, word * BLOCK)


@compiled
def add_pixels(plan: DensePlan, layer: Any, work: DenseWorkspace, samples: int, outputs: Floats) -> None:
    """outputs[sample, o] = sums[o] + sum over pixels of standardised pixel * weights[pixel, o]."""
    zero = repeat(np.float32(0))
    outputs[: samples * layer.row] = 0
    column = 0
    while column + 8 * LANES <= layer.row:
        eight = (zero, zero, zero, zero, zero, zero, zero, zero)
        _add_pixels(eight, column, plan, layer, work, samples, outputs)
        column += 8 * LANES
    while column < layer.row:
        _add_pixels((zero, zero), column, plan, layer, work, samples, outputs)
        column += 2 * LANES


@compiled
def _add_pixels(
    like: Tile, column: int, plan: DensePlan, layer: Any, work: DenseWorkspace, samples: int, outputs: Floats
) -> None:
    """Do `add_pixels` for as many columns as `like` has lanes."""
    row, words = layer.row, len(plan.pixels)
    weights, pixels, values = work.parameters[layer.weight_start :], work.pixels, plan.values
    constant = load_tile(work.sums, column, LANES, like)
    for word in range(words):
        start = word * BLOCK * row + column
        shift, table = broadcast(plan.shift, plan.channels[word]), 256 * plan.channels[word]
        for number in range(plan.pixels[word]):
            constant = scaled_add(constant, shift, weights, start + number * row)
        for sample in range(samples):
            bits = work.by_sample[np.uintp(word * BLOCK + sample)]
            if bits == np.uint64(0):
                continue
            at = (sample * words + word) * BLOCK
            total = load_tile(outputs, sample * row + column, LANES, like)
            while bits != np.uint64(0):
                number = lowest_bit(bits)
                bits &= bits - np.uint64(1)
                value = broadcast(values, table + np.intp(pixels[np.uintp(at + number)]))
                total = scaled_add(total, value, weights, start + number * row)
            store_tile(outputs, sample * row + column, LANES, total)
    store_tile(work.sums, column, LANES, constant)
    one = repeat(np.float32(1))
    for sample in range(samples):
        at = sample * row + column
        store_tile(outputs, at, LANES, scaled_add(constant, one, outputs, at))


@compiled
def add_pixel_gradient(
    plan: DensePlan, layer: Any, work: DenseWorkspace, errors: Floats, target: Floats
) -> None:
    """target[pixel, o] += sum over samples of standardised pixel * errors[sample, o].

    `sums` must be the sums of the errors over the samples.
    """
    zero = repeat(np.float32(0))
    column = 0
    while column + 8 * LANES <= layer.row:
        eight = (zero, zero, zero, zero, zero, zero, zero, zero)
        _add_pixel_gradient(eight, column, plan, layer, work, errors, target)
        column += 8 * LANES
    while column < layer.row:
        _add_pixel_gradient((zero, zero), column, plan, layer, work, errors, target)
        column += 2 * LANES


@compiled
def _add_pixel_gradient(
    like: Tile, column: int, plan: DensePlan, layer: Any, work: DenseWorkspace, errors: Floats, target: Floats
) -> None:
    """Do `add_pixel_gradient` for as many columns as `like` has lanes."""
    row, words, one = layer.row, len(plan.pixels), repeat(np.float32(1))
    gradient, pixels, values = target[layer.weight_start :], work.pixels, plan.values
    for word in range(words):
        shift, table = broadcast(plan.shift, plan.channels[word]), 256 * plan.channels[word]
        constant = scaled_add(like, shift, work.sums, column)
        for number in range(plan.pixels[word]):
            pixel = word * BLOCK + number
            bits = work.by_pixel[np.uintp(pixel)]
            total = constant
            while bits != np.uint64(0):
                sample = lowest_bit(bits)
                bits &= bits - np.uint64(1)
                at = sample * words * BLOCK + pixel
                value = broadcast(values, table + np.intp(pixels[np.uintp(at)]))
                total = scaled_add(total, value, errors, sample * row + column)
            at = pixel * row + column
            store_tile(gradient, at, LANES, scaled_add(total, one, gradient, at))


@compiled
def multiply_add(
    rows: int, terms: int, columns: int, left: Floats, row_step: int, term_step: int, right: Floats,
    found: Floats,
) -> None:  # fmt: skip
    """found[m, n] += sum over k of left[m * row_step + k * term_step] * right[k, n].

    `right` and `found` have rows of `columns` numbers, a multiple of 16. Rows are done four at a time, so
    up to three rows after the last are computed too.
    """
    zero = repeat(np.float32(0))
    four = (zero, zero, zero, zero)
    for column in range(0, columns, 2 * LANES):
        for row in range(0, rows, 4):
            at = row * columns + column
            one, other = load_tile(found, at, columns, four), load_tile(found, at + LANES, columns, four)
            for term in range(terms):
                start = row * row_step + term * term_step
                one = outer_add(one, left, start, row_step, load(right, term * columns + column))
                other = outer_add(other, left, start, row_step, load(right, term * columns + column + LANES))
            store_tile(found, at, columns, one)
            store_tile(found, at + LANES, columns, other)


@compiled
def input_errors(
    layer: Any, width: int, samples: int, errors: Floats, weights: Floats, inputs: Floats, transposed: Floats,
    found: Floats,
) -> None:  # fmt: skip
    """found[sample, i] = sum over o of errors[sample, o] * weights[i, o] where input i > 0, else 0."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for number in range(0, width, LANES):
        for output in range(0, layer.row, LANES):
            tile = transpose(load_tile(weights, number * layer.row + output, layer.row, eight))
            store_tile(transposed, output * width + number, width, tile)
    found[: BLOCK * width] = 0
    multiply_add(samples, layer.outputs, width, errors, layer.row, 1, transposed, found)
    for at in range(0, samples * width, LANES):
        store(found, at, where_greater(load(inputs, at), zero, load(found, at), zero))


@compiled
def sum_rows(layer: Any, samples: int, errors: Floats, sums: Floats) -> None:
    """sums[o] = sum over samples of errors[sample, o]."""
    for column in range(0, layer.row, LANES):
        total = repeat(np.float32(0))
        for sample in range(samples):
            total = add(total, load(errors, sample * layer.row + column))
        store(sums, column, total)


@compiled
def output_errors(layer: Any, scores: Floats, labels: Numbers, weight: float, errors: Floats) -> float:
    """Return the cross-entropy summed over samples; store its gradient by the scores, times `weight`.

    loss = log(sum over c of exp(score[c])) - score[label], error[c] = exp(score[c]) / sum - (c == label).
    """
    loss = 0.0
    lowest = np.float32(-np.inf)
    for sample in range(labels.size):
        start = sample * layer.row
        for number in range(layer.outputs, layer.row):  # padding: exp of it is zero
            scores[start + number] = lowest
        greatest = load(scores, start)
        for at in range(start + LANES, start + layer.row, LANES):
            greatest = where_greater(load(scores, at), greatest, load(scores, at), greatest)
        highest = lane_max(greatest)
        sums = repeat(np.float32(0))
        for at in range(start, start + layer.row, LANES):
            share = exponential(add(load(scores, at), repeat(-highest)))
            store(errors, at, share)
            sums = add(sums, share)
        total = np.float64(lane_sum(sums))
        share = np.float32(weight / total)
        right = start + labels[sample]
        probability = np.float64(errors[right]) / total
        for at in range(start, start + layer.row):
            errors[at] *= share
        errors[right] = weight * (probability - 1.0)
        loss += log(total) - np.float64(scores[right] - highest)
    return loss


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


@compiled
def to_columns(layer: Any, start: int, count: int, model: Floats, place: int, weights: Floats) -> None:
    """weights[place + i, o] = model's weight of output o and input start + i, for `count` inputs."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
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
    """Do the opposite of `to_columns`."""
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
