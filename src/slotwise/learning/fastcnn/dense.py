"""Dense layers of eight samples: forward, gradients, and the loss at the end.

The eight samples are the lanes of a vector. Eight outputs (or inputs, on the way back) are worked on together, so
that each load of an activation serves eight multiply-adds.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.vectors import (
    LANES,
    broadcast,
    compiled,
    gather_add,
    load,
    load_tile,
    outer_add,
    repeat,
    store,
    store_tile,
    where_greater,
)

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


@compiled
def forward(
    layer: Any, weights: Floats, bias: Floats, inputs: Floats, outputs: Floats, rectify: bool
) -> None:
    """outputs[o] = bias[o] + sum over i of weights[o, i] * inputs[i], then relu if asked for; all as lanes."""
    zero = repeat(np.float32(0))
    for output in range(0, layer.outputs, 8):
        total = (zero, zero, zero, zero, zero, zero, zero, zero)
        total = outer_add(total, bias, output, 1, repeat(np.float32(1)))
        for number in range(layer.inputs):
            value = load(inputs, LANES * number)
            total = outer_add(total, weights, output * layer.columns + number, layer.columns, value)
        store_tile(outputs, LANES * output, LANES, total)
    if rectify:
        for number in range(layer.outputs):
            value = load(outputs, LANES * number)
            store(outputs, LANES * number, where_greater(zero, value, zero, value))


@compiled
def add_weight_gradient(layer: Any, errors: Floats, rows: Floats, gradient: Floats, samples: int) -> None:
    """gradient[o, i] += sum over samples s of errors[o, s] * rows[s, i]."""
    zero = repeat(np.float32(0))
    tile = (zero, zero, zero, zero, zero, zero, zero, zero)
    steps = (0, 8, 16, 24, 32, 40, 48, 56)
    for column in range(0, layer.columns, 8 * LANES):
        for output in range(layer.outputs):
            at = output * layer.columns + column
            total = load_tile(gradient, at, LANES, tile)
            for sample in range(samples):
                error = broadcast(errors, LANES * output + sample)
                total = gather_add(total, error, rows, sample * layer.input_stride + column, steps)
            store_tile(gradient, at, LANES, total)


@compiled
def add_bias_gradient(outputs: int, errors: Floats, gradient: Floats) -> None:
    """gradient[o] += sum over samples s of errors[o, s]."""
    for output in range(outputs):
        for lane in range(LANES):
            gradient[output] += errors[LANES * output + lane]


@compiled
def input_errors(layer: Any, weights: Floats, errors: Floats, inputs: Floats, found: Floats) -> None:
    """found[i] = sum over o of weights[o, i] * errors[o] where inputs[i] > 0 (they come out of a relu), else 0."""
    zero = repeat(np.float32(0))
    for number in range(0, layer.inputs, 8):
        total = (zero, zero, zero, zero, zero, zero, zero, zero)
        for output in range(layer.outputs):
            total = outer_add(
                total, weights, output * layer.columns + number, 1, load(errors, LANES * output)
            )
        store_tile(found, LANES * number, LANES, total)
    close_relu(layer.inputs, inputs, found)


@compiled
def close_relu(count: int, outputs: Floats, errors: Floats) -> None:
    """Let an error through a relu only where its output is positive."""
    zero = repeat(np.float32(0))
    for number in range(count):
        at = LANES * number
        store(errors, at, where_greater(load(outputs, at), zero, load(errors, at), zero))


@compiled
def output_errors(
    classes: int, scores: Floats, labels: Labels, samples: int, weight: float, errors: Floats
) -> float:
    """Cross-entropy summed over samples; its gradient with respect to the scores, times `weight`, as lanes.

    loss = log(sum over c of exp(score[c])) - score[label], error[c] = exp(score[c]) / sum - (c == label).
    """
    loss = 0.0
    errors[: LANES * classes] = 0
    for lane in range(samples):
        highest = scores[lane]
        for number in range(classes):
            highest = max(highest, scores[LANES * number + lane])
        total = 0.0
        for number in range(classes):
            total += exp(np.float64(scores[LANES * number + lane] - highest))
        for number in range(classes):
            share = exp(np.float64(scores[LANES * number + lane] - highest)) / total
            errors[LANES * number + lane] = weight * (share - (number == labels[lane]))
        loss += log(total) + np.float64(highest) - np.float64(scores[LANES * labels[lane] + lane])
    return loss


@compiled
def count_correct(classes: int, scores: Floats, labels: Labels, samples: int) -> int:
    """How many samples have their highest score at their label (the first of equal scores counts)."""
    correct = 0
    for lane in range(samples):
        best = 0
        for number in range(1, classes):
            if scores[LANES * number + lane] > scores[LANES * best + lane]:
                best = number
        correct += best == labels[lane]
    return correct
