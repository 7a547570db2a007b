"""Models of dense layers between PyTorch's order and that of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.architecture import LANES
from slotwise.learning.fastcnn.dense_layout import BLOCK, DensePlan, DenseWorkspace
from slotwise.learning.fastcnn.vectors import (
    compiled,
    inlined,
    load_tile,
    repeat,
    store,
    store_tile,
    transpose,
)

Floats = NDArray[np.float32]


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


@compiled
def to_columns(layer: Any, start: int, count: int, model: Floats, place: int, weights: Floats) -> None:
    """weights[place + i, o] = model's weight of output o and input start + i, for `count` inputs."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    # The model has rows of inputs, the kernels have rows of outputs. Blocks of 8 x 8 are transposed in
    # registers, so that both are read and written eight numbers at a time.
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
    """Copy weights from columns back to the rows of the model: the inverse of `to_columns`."""
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
