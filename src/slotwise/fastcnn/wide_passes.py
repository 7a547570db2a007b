"""Training and evaluation of networks of wide layers, laid out by `wide_plan`.

The samples of a batch, up to 64 at a time, go through the convolutions one by one, whose maps then fit into a
core's own cache, and through the dense layers together, so that their weights are read once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.dense_passes import output_errors
from slotwise.fastcnn.vectors import SOURCES, compiled, entry
from slotwise.fastcnn.wide_backward import spatial_backward, through_dropout_and_relu
from slotwise.fastcnn.wide_kernels import add_products, multiply
from slotwise.fastcnn.wide_maps import (
    add_row,
    drop,
    read_image,
    rectify,
    spatial_forward,
)
from slotwise.fastcnn.wide_model import copy_filters, read_model, transpose_panels, update, write_model
from slotwise.fastcnn.wide_plan import DENSE, WidePlan, WideWorkspace
from slotwise.fastcnn.winograd import finish_gradient

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Images = NDArray[np.uint8]
Kept = NDArray[np.bool_]


@entry
def descend(
    plan: WidePlan, work: WideWorkspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
    lengths: Numbers, kept: Kept, rate: float, only_gradient: bool, result: Floats, _sources: str = SOURCES,
) -> float:  # fmt: skip
    """Take one step of gradient descent per batch, from the model on; store the new model in `result`.

    Batches and answers are [step, sample]: numbers of images, and their labels; of the samples of a step the
    first ``lengths[step]`` are used. ``kept`` is [step, sample, value]: what dropout keeps; it has no values
    without dropout. With `only_gradient` the result is the gradient of the last batch. Returns its mean loss.
    """
    read_model(plan, work, model)
    loss = 0.0
    for step in range(len(batches)):
        samples = lengths[step]
        # With all samples in one block the gradient of a dense layer is added to its weights at once.
        direct = samples <= plan.block and not only_gradient
        weight = 1.0 / samples if only_gradient else -rate / samples
        work.gradient[: plan.dense_gradient if direct else plan.gradients] = 0
        work.patch_gradients[:] = 0
        copy_filters(plan, work)
        loss = 0.0
        for start in range(0, samples, plan.block):
            end = min(start + plan.block, samples)
            chosen, labels = batches[step, start:end], answers[step, start:end]
            own = kept[step, start:end]
            loss += add_gradient(plan, work, images, chosen, labels, own, weight, direct)
        finish_gradient(plan, work)
        if not only_gradient:
            update(plan, work, direct)
    write_model(plan, work, only_gradient, result)
    return loss / float(lengths[-1])


@entry
def evaluate(
    plan: WidePlan, work: WideWorkspace, model: Floats, images: Images, labels: Numbers,
    _sources: str = SOURCES,
) -> tuple[float, int]:  # fmt: skip
    """Sum of the losses, and how many samples are classified correctly."""
    read_model(plan, work, model)
    copy_filters(plan, work)
    last = plan.operations[-1]
    place = plan.maps[last.target].start
    everything = np.empty((plan.block, 0), np.bool_)
    loss, correct = 0.0, 0
    for start in range(0, len(images), plan.block):
        end = min(start + plan.block, len(images))
        forward_pass(plan, work, images, np.arange(start, end), everything)
        for sample in range(end - start):
            scores, answer = (
                work.values[sample * plan.values + place :],
                labels[start + sample : start + sample + 1],
            )
            loss += output_errors(last, scores, answer, 1.0, work.scratch)
            best = 0  # the first of equal scores counts
            for number in range(1, last.outputs):
                if scores[number] > scores[best]:
                    best = number
            correct += best == answer[0]
    return loss, correct


@compiled
def add_gradient(
    plan: WidePlan, work: WideWorkspace, images: Images, chosen: Numbers, labels: Numbers, kept: Kept,
    weight: float, direct: bool,
) -> float:  # fmt: skip
    """Add the gradient of the summed loss of a block, times `weight`; return the loss.

    `direct`: the gradient of dense layers is added to the parameters, else to the gradient.
    """
    forward_pass(plan, work, images, chosen, kept)
    last = plan.operations[-1]
    output = plan.maps[last.target]
    loss = 0.0
    for sample in range(chosen.size):
        scores = work.values[sample * plan.values + output.start :]
        errors = work.dense_errors[sample * plan.dense_errors + output.error_start :]
        loss += output_errors(last, scores, labels[sample : sample + 1], weight, errors)
    first_dense = 0
    while plan.operations[first_dense].kind != DENSE:
        first_dense += 1
    for number in range(len(plan.operations) - 1, first_dense - 1, -1):
        dense_backward(plan, work, plan.operations[number], chosen.size, kept, direct)
    for sample in range(chosen.size):
        for number in range(first_dense - 1, -1, -1):
            spatial_backward(plan, work, plan.operations[number], sample, kept[sample])
    return loss


@compiled
def forward_pass(plan: WidePlan, work: WideWorkspace, images: Images, chosen: Numbers, kept: Kept) -> None:
    """Fill the maps of up to 64 images."""
    for sample in range(chosen.size):
        values = work.values[sample * plan.values :]
        winners = work.winners[sample * plan.winners :]
        read_image(plan, images[chosen[sample]], values)
        for layer in plan.operations:
            if layer.kind != DENSE:
                spatial_forward(plan, work, layer, kept[sample], values, winners)
    for layer in plan.operations:
        if layer.kind == DENSE:
            source, target = plan.maps[layer.source], plan.maps[layer.target]
            weights, bias = work.parameters[layer.weight_start :], work.parameters[layer.bias_start :]
            multiply(
                1, 0, 1, 0, layer.terms, chosen.size, work.values, source.first, plan.values, weights,
                bias, layer.row, work.values[target.first :], plan.values,
            )  # fmt: skip
            for sample in range(chosen.size):
                values = work.values[sample * plan.values + target.start :]
                if layer.rectify:
                    rectify(layer.row, values)
                if layer.drop_start >= 0 and kept.shape[1] > 0:
                    drop(plan, layer, target, kept[sample], values)


@compiled
def dense_backward(
    plan: WidePlan, work: WideWorkspace, layer: Any, samples: int, kept: Kept, direct: bool
) -> None:
    """Gradient of a dense layer, and errors of its inputs unless they are the images."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    for sample in range(samples):
        errors = work.dense_errors[sample * plan.dense_errors + target.error_start :]
        through_dropout_and_relu(
            plan, layer, target, kept[sample], work.values[sample * plan.values :], errors
        )
    if not layer.first:
        transpose_panels(layer, work.parameters[layer.weight_start :], work.transposed)
        multiply(
            1, 0, 1, 0, layer.row, samples, work.dense_errors, target.error_start, plan.dense_errors,
            work.transposed, work.zeros, layer.terms, work.dense_errors[source.error_start :],
            plan.dense_errors,
        )  # fmt: skip
    weights = work.parameters[layer.weight_start :] if direct else work.gradient[layer.gradient_start :]
    add_products(
        layer, 0, 1, samples, work.values, source.first, 0, plan.values, work.dense_errors,
        target.error_start, 0, plan.dense_errors, weights, work.scratch,
    )  # fmt: skip
    if layer.has_bias:
        bias = work.parameters[layer.bias_start :] if direct else work.gradient[layer.bias_gradient :]
        for sample in range(samples):
            add_row(layer.row, work.dense_errors[sample * plan.dense_errors + target.error_start :], bias)
