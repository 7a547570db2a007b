"""Training and evaluation of a network of dense layers: multinomial logistic regression and MLPs.

Blocks of 64 samples go through the network together. Weights lie as [input, output]; the first layer has
almost all of them and kernels of its own, see `pixel_layer`. If the batch is one block, its gradient is never
stored: it is added to the weights, times minus the step size, row by row.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES
from slotwise.fastcnn.dense_layout import BLOCK, DensePlan, DenseWorkspace, read_model, write_model
from slotwise.fastcnn.instructions import exponential, lane_max
from slotwise.fastcnn.pixel_layer import add_pixel_gradient, add_pixels, read_pixels
from slotwise.fastcnn.vectors import (
    SOURCES,
    WIDE,
    add,
    compiled,
    entry,
    inlined,
    lane_sum,
    load,
    load_tile,
    outer_add,
    repeat,
    store,
    store_tile,
    transpose,
    where_greater,
    wide_load,
    zeros,
)

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Images = NDArray[np.uint8]

ROWS = 8 if WIDE == 16 else 4  # rows of a matrix product that are computed together
some_rows = zeros(ROWS)


@entry
def descend_each(
    plan: DensePlan, work: DenseWorkspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
    lengths: Numbers, rates: NDArray[np.float64], trained: Floats, _sources: str = SOURCES,
) -> None:  # fmt: skip
    """Do several trainings from one model: `descend` for each, with its step size."""
    for job in range(len(batches)):
        descend(plan, work, model, images, batches[job], answers[job], lengths, rates[job], trained[job])


@inlined
def descend(
    plan: DensePlan, work: DenseWorkspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
    lengths: Numbers, rate: float, trained: Floats,
) -> None:  # fmt: skip
    """Take one step of gradient descent per batch, from the model on; store the new model in `trained`.

    Batches and answers are [step, sample]: numbers of images, and their labels; of the samples of a step the
    first ``lengths[step]`` are used.
    """
    read_model(plan, work, model)
    for step in range(len(batches)):
        samples = lengths[step]
        if samples <= BLOCK:
            chosen, labels = batches[step, :samples], answers[step, :samples]
            add_gradient(plan, work, images, chosen, labels, -rate / samples, work.parameters)
        else:
            # All blocks of a batch must see the same parameters, so their gradients are added up first.
            work.gradient[:] = 0
            for start in range(0, samples, BLOCK):
                end = min(start + BLOCK, samples)
                chosen, labels = batches[step, start:end], answers[step, start:end]
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
            # The sums are the gradient of the bias, and also what `add_pixel_gradient` needs.
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
            # All rows of the block: `multiply_add` adds to a few rows after the last sample, where old
            # numbers would grow from call to call.
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
def multiply_add(
    rows: int, terms: int, columns: int, left: Floats, row_step: int, term_step: int, right: Floats,
    found: Floats,
) -> None:  # fmt: skip
    """found[m, n] += sum over k of left[m * row_step + k * term_step] * right[k, n].

    `right` and `found` have rows of `columns` numbers, a multiple of 16. Rows are done `ROWS` at a time, so
    a few rows after the last are computed too.
    """
    column = 0
    while column + 2 * WIDE <= columns:
        for row in range(0, rows, ROWS):
            at = row * columns + column
            # Two columns of vectors are as many sums in registers as it takes to hide the time of an
            # addition, and each vector of `right` is used for all rows.
            one, other = (
                load_tile(found, at, columns, some_rows()),
                load_tile(found, at + WIDE, columns, some_rows()),
            )
            for term in range(terms):
                start, from_right = row * row_step + term * term_step, term * columns + column
                one = outer_add(one, left, start, row_step, wide_load(right, from_right))
                other = outer_add(other, left, start, row_step, wide_load(right, from_right + WIDE))
            store_tile(found, at, columns, one)
            store_tile(found, at + WIDE, columns, other)
        column += 2 * WIDE
    if column < columns:
        for row in range(0, rows, ROWS):
            at = row * columns + column
            one = load_tile(found, at, columns, some_rows())
            for term in range(terms):
                start = row * row_step + term * term_step
                one = outer_add(one, left, start, row_step, wide_load(right, term * columns + column))
            store_tile(found, at, columns, one)


@compiled
def input_errors(
    layer: Any, width: int, samples: int, errors: Floats, weights: Floats, inputs: Floats, transposed: Floats,
    found: Floats,
) -> None:  # fmt: skip
    """found[sample, i] = sum over o of errors[sample, o] * weights[i, o] where input i > 0, else 0."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    # `multiply_add` runs along the rows of its right factor, so it needs the weights as [output, input].
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
        # With the highest score subtracted, exp cannot overflow and the sum is at least 1.
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
        # Read before the loop below scales the errors in place.
        probability = np.float64(errors[right]) / total
        for at in range(start, start + layer.row):
            errors[at] *= share
        errors[right] = weight * (probability - 1.0)
        loss += log(total) - np.float64(scores[right] - highest)
    return loss
