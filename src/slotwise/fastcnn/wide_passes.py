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
from slotwise.fastcnn.wide_backward import add_bias, spatial_backward, through_dropout_and_relu
from slotwise.fastcnn.wide_dense import dense_backward, dense_forward
from slotwise.fastcnn.wide_maps import (
    drop,
    read_image,
    spatial_forward,
)
from slotwise.fastcnn.wide_model import copy_filters, read_model, update, write_model
from slotwise.fastcnn.wide_plan import DENSE, FEW, WidePlan, WideWorkspace
from slotwise.fastcnn.wide_together import (
    add_errors_together,
    convolve_together,
    finish_together,
    take_errors,
)
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
        work.gradient[: plan.convolutions if direct else plan.parameters] = 0
        work.patch_gradients[:] = 0
        copy_filters(plan, work)
        loss = 0.0
        for start in range(0, samples, plan.block):
            end = min(start + plan.block, samples)
            chosen, labels = batches[step, start:end], answers[step, start:end]
            own = kept[step, start:end]
            loss += add_gradient(plan, work, images, chosen, labels, own, weight, direct)
        finish_gradient(plan, work)
        finish_together(plan, work)
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
    few = samples_at_once(plan)
    for first in range(0, chosen.size, few):
        last = min(first + few, chosen.size)
        if first_dense > 0 and plan.operations[first_dense - 1].together:
            together_backward(plan, work, plan.operations[first_dense - 1], first, last, kept)
        for sample in range(first, last):
            for number in range(first_dense - 1, -1, -1):
                layer = plan.operations[number]
                if layer.together:
                    take_errors(plan.maps[layer.source], work, sample - first)
                else:
                    spatial_backward(plan, work, layer, sample, kept[sample])
    return loss


@compiled
def together_backward(
    plan: WidePlan, work: WideWorkspace, layer: Any, first: int, last: int, kept: Kept
) -> None:
    """Gradient of a convolution for some samples, and errors of its inputs."""
    target = plan.maps[layer.target]
    for sample in range(first, last):
        errors = work.dense_errors[sample * plan.dense_errors + target.error_start :]
        values = work.values[sample * plan.values :]
        through_dropout_and_relu(plan, layer, target, kept[sample], values, errors)
        add_bias(layer, target, errors, work.gradient[layer.bias_gradient :])
    add_errors_together(plan, work, layer, first, last)


@compiled
def samples_at_once(plan: WidePlan) -> Any:
    """Return how many samples go through a layer before the next layer begins."""
    for layer in plan.operations:
        if layer.together:
            return FEW
    return 1


@compiled
def forward_pass(plan: WidePlan, work: WideWorkspace, images: Images, chosen: Numbers, kept: Kept) -> None:
    """Fill the maps of up to 64 images."""
    few = samples_at_once(plan)
    for first in range(0, chosen.size, few):
        last = min(first + few, chosen.size)
        for sample in range(first, last):
            read_image(plan, images[chosen[sample]], work.values[sample * plan.values :])
        for layer in plan.operations:
            if layer.kind != DENSE:
                map_forward(plan, work, layer, first, last, kept)
    for layer in plan.operations:
        if layer.kind == DENSE:
            dense_forward(plan, work, layer, chosen.size, kept)


@compiled
def map_forward(plan: WidePlan, work: WideWorkspace, layer: Any, first: int, last: int, kept: Kept) -> None:
    """Fill the output of a layer of maps for some samples."""
    if layer.together:
        convolve_together(plan, work, layer, first, last)
    for sample in range(first, last):
        values = work.values[sample * plan.values :]
        if not layer.together:
            winners = work.winners[sample * plan.winners :]
            spatial_forward(plan, work, layer, kept[sample], values, winners)
        elif layer.drop_start >= 0 and kept.shape[1] > 0:
            target = plan.maps[layer.target]
            drop(plan, layer, target, kept[sample], values[target.start :])
