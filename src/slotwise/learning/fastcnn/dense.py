"""Dense layers of eight samples: forward, gradients, and the loss at the end.

The eight samples are the lanes of a vector. Weights lie as [block of eight inputs, output, input of the
block], so that all three products below read them in order, and use each activation they load eight times.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.memory_layout import LANES
from slotwise.learning.fastcnn.tiles import load_tile, outer_add, scaled_add, store_tile, where_positive
from slotwise.learning.fastcnn.vectors import broadcast, compiled, load, repeat, store, where_greater

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


@compiled
def forward(
    layer: Any, weights: Floats, bias: Floats, inputs: Floats, outputs: Floats, rectify: bool
) -> None:
    """outputs[o] = bias[o] + sum over i of weights[o, i] * inputs[i], then relu if asked for."""
    zero, one = repeat(np.float32(0)), repeat(np.float32(1))
    for output in range(0, layer.outputs, 8):
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
    classes: int, scores: Floats, labels: Labels, samples: int, weight: float, errors: Floats
) -> float:
    """Return the cross-entropy summed over samples; store its gradient by the scores, times `weight`.

    loss = log(sum over c of exp(score[c])) - score[label], error[c] = exp(score[c]) / sum - (c == label).
    """
    loss = 0.0
    errors[: LANES * classes] = 0
    for lane in range(samples):
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
        right = LANES * labels[lane] + lane
        below = np.float64(scores[right] - highest)
        errors[right] = weight * (exp(below) / total - 1.0)
        loss += log(total) - below
    return loss


@compiled
def count_correct(classes: int, scores: Floats, labels: Labels, samples: int) -> int:
    """Count the samples whose highest score is at their label; the first of equal scores counts."""
    correct = 0
    for lane in range(samples):
        best = 0
        for number in range(1, classes):
            if scores[LANES * number + lane] > scores[LANES * best + lane]:
                best = number
        correct += best == labels[lane]
    return correct
