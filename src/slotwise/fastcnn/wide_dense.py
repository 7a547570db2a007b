"""Dense layers behind wide layers, for all samples of a block: forward, gradient, errors of the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES
from slotwise.fastcnn.vectors import (
    WIDE,
    compiled,
    load_tile,
    outer_add,
    panel_add,
    repeat,
    store_panel,
    store_tile,
    transpose,
    wide_load,
)
from slotwise.fastcnn.wide_backward import through_dropout_and_relu
from slotwise.fastcnn.wide_kernels import add_panel, add_vector, full, half, multiply
from slotwise.fastcnn.wide_maps import add_row, drop, rectify
from slotwise.fastcnn.wide_plan import BLOCK, PANEL, POSITIONS, WidePlan, WideWorkspace

Floats = NDArray[np.float32]
Kept = NDArray[np.bool_]


@compiled
def dense_forward(plan: WidePlan, work: WideWorkspace, layer: Any, samples: int, kept: Kept) -> None:
    """Fill the output of a dense layer."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    weights, bias = work.parameters[layer.weight_start :], work.parameters[layer.bias_start :]
    multiply(
        1, 0, 1, 0, layer.terms, samples, work.values, source.first, plan.values, weights, bias, layer.row,
        work.values[target.first :], plan.values,
    )  # fmt: skip
    for sample in range(samples):
        values = work.values[sample * plan.values + target.start :]
        if layer.rectify:
            rectify(layer.row, values)
        if layer.drop_start >= 0 and kept.shape[1] > 0:
            drop(plan, layer, target, kept[sample], values)


@compiled
def dense_backward(
    plan: WidePlan, work: WideWorkspace, layer: Any, samples: int, kept: Kept, direct: bool
) -> None:
    """Gradient of a dense layer, and errors of its inputs unless they are the images.

    Both are done for a few inputs at a time, whose weights are then read once.
    """
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    for sample in range(samples):
        errors = work.dense_errors[sample * plan.dense_errors + target.error_start :]
        through_dropout_and_relu(
            plan, layer, target, kept[sample], work.values[sample * plan.values :], errors
        )
    turned = work.transposed
    found = work.transposed[layer.row * BLOCK :]
    if not layer.first:
        pitch = plan.dense_errors
        transpose_rows(samples, layer.row, work.dense_errors, target.error_start, pitch, turned, 0, BLOCK)
    sums = work.parameters if direct else work.gradient
    weights, gradient = work.parameters[layer.weight_start :], sums[layer.weight_start :]
    for term in range(0, layer.terms, POSITIONS):
        if not layer.first:
            errors_of_inputs(layer, term, samples, weights, turned, found)
        used = min(POSITIONS, layer.terms - term)
        for column in range(0, layer.row, PANEL):
            width = min(PANEL, layer.row - column)
            tile = gradient[column * layer.terms + term * width :]
            if width == PANEL:
                add_panel(
                    1, samples, work.values, source.first + term, 0, plan.values, work.dense_errors,
                    target.error_start + column, 0, plan.dense_errors, tile, work.scratch, used,
                )  # fmt: skip
            else:
                add_vector(
                    1, samples, work.values, source.first + term, 0, plan.values, work.dense_errors,
                    target.error_start + column, 0, plan.dense_errors, tile, work.scratch, used,
                )  # fmt: skip
    if not layer.first:
        at = source.error_start
        transpose_rows(layer.terms, samples, found, 0, BLOCK, work.dense_errors, at, plan.dense_errors)
    if layer.has_bias:
        for sample in range(samples):
            errors = work.dense_errors[sample * plan.dense_errors + target.error_start :]
            add_row(layer.row, errors, sums[layer.bias_start :])


@compiled
def errors_of_inputs(
    layer: Any, term: int, samples: int, weights: Floats, turned: Floats, found: Floats
) -> None:
    """found[t, s] = the sum over o of weights[t, o] * turned[o, s], for a few terms t from `term` on."""
    for sample in range(0, samples, PANEL):
        if samples - sample > WIDE:
            tile = full()
            for column in range(0, layer.row, PANEL):
                width = min(PANEL, layer.row - column)
                at = column * layer.terms + term * width
                for output in range(width):
                    place = (column + output) * BLOCK + sample
                    tile = panel_add(tile, weights, at + output, width, turned, place)
            store_panel(found, term * BLOCK + sample, BLOCK, tile)
        else:
            narrow = half()
            for column in range(0, layer.row, PANEL):
                width = min(PANEL, layer.row - column)
                at = column * layer.terms + term * width
                for output in range(width):
                    value = wide_load(turned, (column + output) * BLOCK + sample)
                    narrow = outer_add(narrow, weights, at + output, width, value)
            store_tile(found, term * BLOCK + sample, BLOCK, narrow)


@compiled
def transpose_rows(
    rows: int, columns: int, values: Floats, start: int, pitch: int, found: Floats, to: int, step: int
) -> None:
    """found[c, r] = values[r, c]; up to seven rows and columns after the last are copied too."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for row in range(0, rows, LANES):
        for column in range(0, columns, LANES):
            tile = transpose(load_tile(values, start + row * pitch + column, pitch, eight))
            store_tile(found, to + column * step + row, step, tile)
