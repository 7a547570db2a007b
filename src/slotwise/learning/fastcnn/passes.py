"""Blocks of eight samples through the whole network, forward and backward, and the loops over blocks and steps.

Eight samples at a time keep everything they touch inside a core's own cache, so that cores do not wait for each
other. Every function here runs without the interpreter lock and touches only its arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn import backward, convolution, dense
from slotwise.learning.fastcnn.plan import Plan, Workspace
from slotwise.learning.fastcnn.vectors import LANES, compiled, load_tile, repeat, store_tile, transpose

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

pack_filters, convolve = convolution.pack_filters, convolution.convolve
list_patches, add_filter_gradient = backward.list_patches, backward.add_filter_gradient
add_input_gradient = backward.add_input_gradient
dense_forward, input_errors, output_errors = dense.forward, dense.input_errors, dense.output_errors
add_weight_gradient, add_bias_gradient = dense.add_weight_gradient, dense.add_bias_gradient
close_relu, count_correct = dense.close_relu, dense.count_correct


@compiled
def read_images(plan: Plan, work: Workspace, images: NDArray[np.uint8], chosen: Numbers) -> None:
    """Normalise up to eight images into rows, channels last; missing samples are blank."""
    stride, channels = plan.image_stride, plan.factor.size
    pixels = images.shape[1] // channels
    for sample in range(LANES):
        row = work.rows[sample * stride : sample * stride + channels * pixels]
        if sample >= chosen.size:
            row[:] = 0
            continue
        image = images[chosen[sample]]
        for channel in range(channels):
            factor, shift = plan.factor[channel], plan.shift[channel]
            plane = image[channel * pixels : (channel + 1) * pixels]
            for pixel in range(pixels):
                row[pixel * channels + channel] = factor * np.float32(plane[pixel]) + shift


@compiled
def rows_to_lanes(count: int, stride: int, rows: Floats, lanes: Floats) -> None:
    """lanes[value, sample] = rows[sample, value]."""
    zero = repeat(np.float32(0))
    tile = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, count, LANES):
        store_tile(lanes, LANES * value, LANES, transpose(load_tile(rows, value, stride, tile)))


@compiled
def lanes_to_rows(count: int, stride: int, lanes: Floats, rows: Floats) -> None:
    """rows[sample, value] = lanes[value, sample]."""
    zero = repeat(np.float32(0))
    tile = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, count, LANES):
        store_tile(rows, value, stride, transpose(load_tile(lanes, LANES * value, LANES, tile)))


@compiled
def forward_pass(plan: Plan, work: Workspace, images: NDArray[np.uint8], chosen: Numbers) -> Floats:
    """Scores of up to eight images, as lanes."""
    read_images(plan, work, images, chosen)
    rows_to_lanes(images.shape[1], plan.image_stride, work.rows, work.lanes)
    for layer in plan.convolutions:
        inputs, outputs = LANES * layer.input_start, LANES * layer.output_start
        convolve(
            layer,
            plan.tap_steps[layer.taps_start :],
            work.packed[layer.packed_start :],
            work.parameters[layer.bias_start :],
            work.lanes[inputs:],
            work.lanes[outputs:],
            work.winners[outputs:],
        )
    last = len(plan.denses) - 1
    for number, layer in enumerate(plan.denses):
        dense_forward(
            layer,
            work.parameters[layer.weight_start :],
            work.parameters[layer.bias_start :],
            work.lanes[LANES * layer.input_start :],
            work.lanes[LANES * layer.output_start :],
            number < last,
        )
    return work.lanes[LANES * plan.denses[last].output_start :]


@compiled
def backward_pass(plan: Plan, work: Workspace, samples: int) -> None:
    """Add the gradient of the block's loss, given the errors of the scores, to work.gradient."""
    for number in range(len(plan.denses) - 1, -1, -1):
        dense_backward(plan, work, plan.denses[number], samples, number + len(plan.convolutions) > 0)
    for number in range(len(plan.convolutions) - 1, -1, -1):
        convolution_backward(plan, work, plan.convolutions[number], number > 0)


@compiled
def dense_backward(plan: Plan, work: Workspace, layer: Any, samples: int, errors_wanted: bool) -> None:
    inputs, outputs = LANES * layer.input_start, LANES * layer.output_start
    if errors_wanted:
        lanes_to_rows(layer.inputs, layer.input_stride, work.lanes[inputs:], work.rows[inputs:])
        weights = work.parameters[layer.weight_start :]
        input_errors(layer, weights, work.errors[outputs:], work.lanes[inputs:], work.errors[inputs:])
    add_weight_gradient(
        layer, work.errors[outputs:], work.rows[inputs:], work.gradient[layer.weight_start :], samples
    )
    add_bias_gradient(layer.outputs, work.errors[outputs:], work.gradient[layer.bias_start :])


@compiled
def convolution_backward(plan: Plan, work: Workspace, layer: Any, errors_wanted: bool) -> None:
    inputs, outputs = LANES * layer.input_start, LANES * layer.output_start
    steps = plan.piece_steps[layer.pieces_start :]
    rows, positions, amounts = work.rows[inputs:], work.positions, work.amounts
    values = layer.height * layer.width * layer.channels
    if errors_wanted:
        lanes_to_rows(values, layer.input_stride, work.lanes[inputs:], rows)
        work.error_rows[:] = 0
    for output in range(layer.filters):
        count = list_patches(layer, output, work.errors[outputs:], work.winners[outputs:], positions, amounts)
        weight = layer.weight_start + output * layer.pieces * LANES
        gradient = work.gradient[weight:]
        for number in range(count):
            work.gradient[layer.bias_start + output] += amounts[number]
        add_filter_gradient(layer, steps, count, positions, amounts, rows, gradient)
        if errors_wanted:
            weights = work.parameters[weight:]
            add_input_gradient(layer, steps, count, positions, amounts, weights, work.error_rows)
    if errors_wanted:
        rows_to_lanes(values, layer.input_stride, work.error_rows, work.errors[inputs:])
        close_relu(values, work.lanes[inputs:], work.errors[inputs:])


@compiled
def read_model(plan: Plan, work: Workspace, model: Floats) -> None:
    """Bring a model into the order the kernels use."""
    for number in range(plan.source.size):
        source = plan.source[number]
        work.parameters[number] = model[source] if source >= 0 else np.float32(0)
    pack(plan, work)


@compiled
def pack(plan: Plan, work: Workspace) -> None:
    for layer in plan.convolutions:
        pack_filters(layer, work.parameters[layer.weight_start :], work.packed[layer.packed_start :])


@compiled
def write_model(plan: Plan, values: Floats, model: Floats) -> None:
    """Bring parameters, or their gradient, back into the model's order."""
    for number in range(plan.source.size):
        if plan.source[number] >= 0:
            model[plan.source[number]] = values[number]


@compiled
def add_up(plan: Plan, work: Workspace, images: NDArray[np.uint8], labels: Numbers, chosen: Numbers) -> float:
    """Leave the gradient of the mean loss over the chosen samples in work.gradient; return the mean loss."""
    work.gradient[:] = 0
    loss = 0.0
    last = plan.denses[len(plan.denses) - 1]
    answers = np.zeros(LANES, np.int64)
    for start in range(0, chosen.size, LANES):
        block = chosen[start : start + LANES]
        for lane in range(block.size):
            answers[lane] = labels[block[lane]]
        scores = forward_pass(plan, work, images, block)
        errors = work.errors[LANES * last.output_start :]
        loss += output_errors(last.outputs, scores, answers, block.size, 1.0 / chosen.size, errors)
        backward_pass(plan, work, block.size)
    return loss / chosen.size


@compiled
def train(
    plan: Plan,
    work: Workspace,
    model: Floats,
    images: NDArray[np.uint8],
    labels: Numbers,
    batches: Any,
    rate: float,
) -> Floats:
    """One step of gradient descent per batch; return the new model."""
    read_model(plan, work, model)
    for step in range(len(batches)):
        add_up(plan, work, images, labels, batches[step])
        for number in range(plan.source.size):
            if plan.source[number] >= 0:
                work.parameters[number] -= rate * work.gradient[number]
        pack(plan, work)
    trained = np.empty_like(model)
    write_model(plan, work.parameters, trained)
    return trained


@compiled
def gradient(
    plan: Plan, work: Workspace, model: Floats, images: NDArray[np.uint8], labels: Numbers
) -> tuple[float, Floats]:
    """Mean loss over all samples, and its gradient."""
    read_model(plan, work, model)
    loss = add_up(plan, work, images, labels, np.arange(len(images)))
    found = np.empty_like(model)
    write_model(plan, work.gradient, found)
    return loss, found


@compiled
def evaluate(
    plan: Plan, work: Workspace, model: Floats, images: NDArray[np.uint8], labels: Numbers
) -> tuple[float, int]:
    """Sum of the losses, and how many samples are classified correctly."""
    read_model(plan, work, model)
    last = plan.denses[len(plan.denses) - 1]
    everything = np.arange(len(images))
    loss, correct = 0.0, 0
    for start in range(0, len(images), LANES):
        block = everything[start : start + LANES]
        scores = forward_pass(plan, work, images, block)
        answers = labels[start : start + LANES]
        loss += output_errors(last.outputs, scores, answers, block.size, 1.0, work.errors)
        correct += count_correct(last.outputs, scores, answers, block.size)
    return loss, correct
