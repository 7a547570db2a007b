"""Processor time of the parts of an SGD step of McMahan's CNN 32-64-512 in the compiled kernels.

    taskset -c 0 python benchmarks/step_parts.py [--seconds 2] [--parts step copies dense]

Each part is repeated alone on the maps that a step has left, so its data may lie nearer than in a whole step:
the parts take less than the step. The smallest of all turns is printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from slotwise.base.machine import describe_machine
from slotwise.data import load_mnist
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.kernels import WideKernels, read_only
from slotwise.fastcnn.layers import as_layers
from slotwise.fastcnn.vectors import compiled
from slotwise.fastcnn.wide_backward import spatial_backward
from slotwise.fastcnn.wide_dense import dense_backward, dense_forward
from slotwise.fastcnn.wide_maps import read_image
from slotwise.fastcnn.wide_model import copy_filters, update
from slotwise.fastcnn.wide_passes import map_forward, together_backward
from slotwise.fastcnn.wide_plan import FEW, WidePlan, WideWorkspace
from slotwise.fastcnn.wide_together import finish_together

NETWORK = Architecture((1, 28, 28), ((32, 5), (64, 5)), (512,), 10)
FIRST, SECOND, HIDDEN, OUTPUT = range(4)
BATCH, STEPS = 64, 5
Kept = Any


@compiled
def copies(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    work.gradient[: plan.convolutions] = 0
    copy_filters(plan, work)


@compiled
def add_step(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    update(plan, work, True)


@compiled
def first_forward(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:
    for sample in range(BATCH):
        read_image(plan, images[sample], work.values[sample * plan.values :])
    map_forward(plan, work, plan.operations[FIRST], 0, BATCH, kept)


@compiled
def second_forward(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    for sample in range(0, BATCH, FEW):
        map_forward(plan, work, plan.operations[SECOND], sample, sample + FEW, kept)


@compiled
def forward_of_dense(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    for number in (HIDDEN, OUTPUT):
        dense_forward(plan, work, plan.operations[number], BATCH, kept)


@compiled
def backward_of_dense(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    for number in (OUTPUT, HIDDEN):
        dense_backward(plan, work, plan.operations[number], BATCH, kept, True)


@compiled
def second_backward(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    for sample in range(0, BATCH, FEW):
        together_backward(plan, work, plan.operations[SECOND], sample, sample + FEW, kept)
    finish_together(plan, work)


@compiled
def first_backward(plan: WidePlan, work: WideWorkspace, images: Any, kept: Kept) -> None:  # noqa: ARG001
    for sample in range(BATCH):
        spatial_backward(plan, work, plan.operations[FIRST], sample, kept[sample])


PARTS: dict[str, Callable[..., Any]] = {
    "copies of filters": copies,
    "first convolution forward": first_forward,
    "second convolution forward": second_forward,
    "dense layers forward": forward_of_dense,
    "dense layers backward": backward_of_dense,
    "second convolution backward": second_backward,
    "first convolution backward": first_backward,
    "SGD step of filters": add_step,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--parts", nargs="+", default=["step", *PARTS])
    options = parser.parse_args()
    data, draw = load_mnist(), np.random.default_rng(0)
    images = read_only(data.train_inputs[:BATCH].reshape(BATCH, -1), np.uint8)
    answers, network = read_only(data.train_targets[:BATCH], np.int64), as_layers(NETWORK)
    kernels = WideKernels(network, data.offset, data.scale)
    work, model = kernels.make_workspace(), read_only(network.initial_parameters(draw), np.float32)
    batches = read_only(np.tile(np.arange(BATCH), (1, STEPS, 1)), np.int64)
    labels, lengths = (
        read_only(np.tile(answers, (1, STEPS, 1)), np.int64),
        read_only([BATCH] * STEPS, np.int64),
    )
    given = (work, model, images, batches, labels, lengths, None, [0.01])
    kept = np.empty((BATCH, 0), np.bool_)
    ways: dict[str, Callable[[], Any]] = {"step": lambda: kernels.train_each(*given)}
    ways |= {name: partial(part, kernels._plan, work, images, kept) for name, part in PARTS.items()}
    print(f"{describe_machine()}; ms of processor time, least of {options.turns} turns")
    kernels.gradient(work, model, images, answers, None)
    best = dict.fromkeys(options.parts, float("inf"))
    for name in best:
        ways[name]()  # compiles
    for _ in range(options.turns):
        for name in best:
            began = time.process_time()
            ways[name]()
            best[name] = min(best[name], time.process_time() - began)
    for name, seconds in best.items():
        print(f"{name:30} {1e3 * seconds / (STEPS if name == 'step' else 1):6.3f}", flush=True)


if __name__ == "__main__":
    main()
