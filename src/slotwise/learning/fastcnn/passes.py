"""Blocks of eight samples through the whole network, forward and backward; loops over blocks and steps.

Eight samples at a time keep everything they touch inside a core's own cache, so that cores do not wait for
each other. All functions touch their arguments only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.convolution import (
    add_bias_gradient,
    add_filter_gradient,
    add_input_gradient,
    convolve,
    list_filters,
    list_patches,
    pack_filters,
    shift_filters,
)
from slotwise.learning.fastcnn.dense import (
    add_weight_gradient,
    count_correct,
    forward,
    input_errors,
    output_errors,
)
from slotwise.learning.fastcnn.memory_layout import LANES, Plan, Workspace
from slotwise.learning.fastcnn.tiles import load_tile, store_tile, transpose, where_positive
from slotwise.learning.fastcnn.vectors import SOURCES, compiled, entry, inlined, repeat

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Places = NDArray[np.int32]
Images = NDArray[np.uint8]


@entry
def descend(
    plan: Plan,
    work: Workspace,
    model: Floats,
    images: Images,
    batches: Numbers,
    answers: Numbers,
    rate: float,
    _sources: str = SOURCES,
) -> float:
    """Take one step of gradient descent per batch, from the model on; return the mean loss of the last batch.

    Batches and answers are [step, sample]: numbers of images, and their labels. Leaves the parameters and the
    gradient of the last batch in the workspace.
    """
    read_model(plan, work, model)
    loss = 0.0
    for step in range(len(batches)):
        loss = differentiate(plan, work, images, batches[step], answers[step])
        update(plan.source, work.parameters, work.gradient, np.float32(rate))
        arrange_filters(plan, work)
    return loss


@entry
def evaluate(
    plan: Plan, work: Workspace, model: Floats, images: Images, labels: Numbers, _sources: str = SOURCES
) -> tuple[float, int]:
    """Sum of the losses, and how many samples are classified correctly."""
    read_model(plan, work, model)
    classes = plan.denses[-1].outputs
    chosen = np.empty(LANES, np.int64)
    loss, correct = 0.0, 0
    for start in range(0, len(images), LANES):
        samples = min(LANES, len(images) - start)
        for lane in range(samples):
            chosen[lane] = start + lane
        scores = forward_pass(plan, work, images, chosen[:samples])
        answers = labels[start : start + samples]
        loss += output_errors(classes, scores, answers, samples, 1.0, work.errors)
        correct += count_correct(classes, scores, answers, samples)
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
        pack_filters(layer, weights, work.packed[layer.packed_start :])
        shift_filters(layer, weights, work.shifted[layer.shifted_start :])


@inlined
def differentiate(plan: Plan, work: Workspace, images: Images, batch: Numbers, answers: Numbers) -> float:
    """Leave the gradient of the mean loss over a batch in the workspace; return the mean loss."""
    work.gradient[:] = 0
    last = plan.denses[-1]
    loss = 0.0
    for start in range(0, batch.size, LANES):
        chosen, labels = batch[start : start + LANES], answers[start : start + LANES]
        scores = forward_pass(plan, work, images, chosen)
        errors = work.errors[LANES * last.output_start :]
        loss += output_errors(last.outputs, scores, labels, chosen.size, 1.0 / batch.size, errors)
        backward_pass(plan, work, chosen.size)
    return loss / batch.size


@inlined
def forward_pass(plan: Plan, work: Workspace, images: Images, chosen: Numbers) -> Floats:
    """Scores of up to eight images, as lanes."""
    read_images(plan, images, chosen, work.error_rows, work.lanes)
    for layer in plan.convolutions:
        convolve(
            layer,
            plan.tap_steps[layer.taps_start :],
            work.packed[layer.packed_start :],
            work.parameters[layer.bias_start :],
            work.lanes[LANES * layer.input_start :],
            work.lanes[LANES * layer.output_start :],
            work.winners[LANES * layer.output_start :],
        )
    for number, dense in enumerate(plan.denses):
        forward(
            dense,
            work.parameters[dense.weight_start :],
            work.parameters[dense.bias_start :],
            work.lanes[LANES * dense.input_start :],
            work.lanes[LANES * dense.output_start :],
            number < len(plan.denses) - 1,
        )
    return work.lanes[LANES * plan.denses[-1].output_start :]


@inlined
def backward_pass(plan: Plan, work: Workspace, samples: int) -> None:
    """Add the gradient of a block, given the errors of its scores, to the gradient in the workspace."""
    for number in range(len(plan.denses) - 1, -1, -1):
        first = number == 0 and len(plan.convolutions) == 0
        dense_backward(work, plan.denses[number], samples, first)
    for number in range(len(plan.convolutions) - 1, -1, -1):
        convolution_backward(plan, work, plan.convolutions[number], number == 0)


@inlined
def dense_backward(work: Workspace, layer: Any, samples: int, first: bool) -> None:
    """Gradient of a dense layer, and errors of its inputs unless they are the images."""
    lanes, rows = work.lanes[LANES * layer.input_start :], work.rows[LANES * layer.input_start :]
    errors = work.errors[LANES * layer.output_start :]
    lanes_to_rows(layer.inputs, layer.input_stride, lanes, rows)
    if not first:
        found = work.errors[LANES * layer.input_start :]
        input_errors(layer, work.parameters[layer.weight_start :], errors, lanes, found)
    add_weight_gradient(layer, errors, rows, samples, work.gradient[layer.weight_start :])
    add_bias_gradient(layer.outputs, 1, errors, work.gradient[layer.bias_start :])


@inlined
def convolution_backward(plan: Plan, work: Workspace, layer: Any, first: bool) -> None:
    """Gradient of a convolution, and errors of its inputs unless they are the images."""
    lanes, rows = work.lanes[LANES * layer.input_start :], work.rows[LANES * layer.input_start :]
    errors, winners = work.errors[LANES * layer.output_start :], work.winners[LANES * layer.output_start :]
    steps, places, amounts = plan.piece_steps[layer.pieces_start :], work.places, work.amounts
    lanes_to_rows(layer.values, layer.input_stride, lanes, rows)
    for output in range(layer.filters):
        gradient = work.gradient[layer.weight_start + output * layer.pieces * LANES :]
        count = list_patches(layer, output, errors, winners, places, amounts)
        add_filter_gradient(layer, steps, places, amounts, count, rows, gradient)
    windows = layer.pooled_height * layer.pooled_width
    add_bias_gradient(layer.filters, windows, errors, work.gradient[layer.bias_start :])
    if not first:
        shifted, found = work.shifted[layer.shifted_start :], work.errors[LANES * layer.input_start :]
        work.error_rows[:] = 0
        list_filters(layer, errors, winners, places, amounts, work.ends)
        add_input_gradient(layer, places, amounts, work.ends, shifted, work.error_rows)
        errors_to_lanes(layer.values, layer.input_stride, work.error_rows, lanes, found)


@compiled
def read_images(
    plan: Plan, images: NDArray[np.uint8], chosen: NDArray[np.int64], planes: Floats, lanes: Floats
) -> None:
    """Normalise up to eight images into lanes, channels last; missing samples are blank.

    `planes` is room for eight images, channels first as they come.
    """
    stride, channels = plan.image_stride, plan.factor.size
    pixels = images.shape[1] // channels
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
