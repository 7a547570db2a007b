"""Models in the layout of `wide_plan`, and the copies of their parameters that the passes read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES
from slotwise.fastcnn.vectors import (
    compiled,
    gather_tile,
    inlined,
    load_tile,
    repeat,
    scatter_tile,
    store_tile,
    transpose,
)
from slotwise.fastcnn.wide_plan import DENSE, PANEL, WidePlan, WideWorkspace
from slotwise.fastcnn.wide_together import transform_together
from slotwise.fastcnn.winograd import transform_copies

Floats = NDArray[np.float32]


@inlined
def read_model(plan: WidePlan, work: WideWorkspace, model: Floats) -> None:
    """Bring a model into the order of the parameters."""
    for number in range(plan.place_of.size):
        work.parameters[np.uintp(plan.place_of[number])] = model[number]
    for layer in plan.operations:
        if layer.kind == DENSE:
            to_panels(layer, plan.maps[layer.source], model, work.parameters[layer.weight_start :])
            start = layer.model_start + layer.outputs * plan.maps[layer.source].inputs
            for number in range(layer.outputs * layer.has_bias):
                work.parameters[layer.bias_start + number] = model[start + number]


@inlined
def write_model(plan: WidePlan, work: WideWorkspace, gradient: bool, model: Floats) -> None:
    """Bring the parameters, or their gradient, into the order of the model."""
    values = work.gradient if gradient else work.parameters
    for number in range(plan.place_of.size):
        model[number] = values[np.uintp(plan.place_of[number])]
    for layer in plan.operations:
        if layer.kind == DENSE:
            from_panels(layer, plan.maps[layer.source], values[layer.weight_start :], model)
            start = layer.model_start + layer.outputs * plan.maps[layer.source].inputs
            for number in range(layer.outputs * layer.has_bias):
                model[start + number] = values[layer.bias_start + number]


@compiled
def to_panels(layer: Any, source: Any, model: Floats, weights: Floats) -> None:
    """Copy the weights of a dense layer from a model to panels."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    inputs = source.inputs
    # The model has rows of inputs, panels have rows of outputs. Blocks of 8 x 8 are transposed in registers.
    for output in range(0, layer.outputs, LANES):
        column, width = column_of(layer, output)
        for number in range(0, inputs, LANES):
            at = layer.model_start + output * inputs + number
            if output + LANES <= layer.outputs and number + LANES <= inputs:
                places = places_of(number, source, column, width)
                scatter_tile(weights, places, transpose(load_tile(model, at, inputs, eight)))
            else:
                for i in range(min(LANES, inputs - number)):
                    place = column + width * term_of(number + i, source)
                    for o in range(min(LANES, layer.outputs - output)):
                        weights[np.uintp(place + o)] = model[np.uintp(at + o * inputs + i)]


@compiled
def from_panels(layer: Any, source: Any, weights: Floats, model: Floats) -> None:
    """Copy the weights of a dense layer from panels to a model: the inverse of `to_panels`."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    inputs = source.inputs
    for output in range(0, layer.outputs, LANES):
        column, width = column_of(layer, output)
        for number in range(0, inputs, LANES):
            at = layer.model_start + output * inputs + number
            if output + LANES <= layer.outputs and number + LANES <= inputs:
                places = places_of(number, source, column, width)
                store_tile(model, at, inputs, transpose(gather_tile(weights, places, eight)))
            else:
                for i in range(min(LANES, inputs - number)):
                    place = column + width * term_of(number + i, source)
                    for o in range(min(LANES, layer.outputs - output)):
                        model[np.uintp(at + o * inputs + i)] = weights[np.uintp(place + o)]


@inlined
def column_of(layer: Any, output: int) -> tuple[int, int]:
    """Return where the column of an output begins in the panels, and the width of its panel."""
    panel = output // PANEL * PANEL
    return panel * layer.terms + output - panel, min(PANEL, layer.row - panel)


@inlined
def term_of(number: int, source: Any) -> Any:
    """Return the place in a map of an input in PyTorch's order: channel, row, column."""
    positions = source.height * source.width
    return number % positions * source.pixel + number // positions


@compiled
def places_of(number: int, source: Any, column: int, width: int) -> tuple[int, ...]:
    """Return where the weights of eight inputs, from `number` on, begin in the panel of a column."""
    return (
        column + width * term_of(number, source),
        column + width * term_of(number + 1, source),
        column + width * term_of(number + 2, source),
        column + width * term_of(number + 3, source),
        column + width * term_of(number + 4, source),
        column + width * term_of(number + 5, source),
        column + width * term_of(number + 6, source),
        column + width * term_of(number + 7, source),
    )


@compiled
def copy_filters(plan: WidePlan, work: WideWorkspace) -> None:
    """Copy the filters to the forms in which the forward and the backward pass read them."""
    for number in range(plan.copies_of.size):
        source = plan.copies_of[number]
        work.copies[number] = work.parameters[np.uintp(source)] if source >= 0 else np.float32(0)
    transform_copies(plan, work)
    for layer in plan.operations:
        if layer.together:
            transform_together(work, layer)


@compiled
def update(plan: WidePlan, work: WideWorkspace, direct: bool) -> None:
    """Add the gradient to the parameters; it has minus the step size as a factor already.

    `direct`: that of dense layers has been added.
    """
    for number in range(plan.convolutions if direct else plan.parameters):
        work.parameters[number] += work.gradient[number]
