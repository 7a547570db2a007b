"""Checks of a module with its loss, metrics and samples, on one batch, before anything is trained.

They also find out what the module needs: whether it draws random numbers, and whether it can work on images
whose channels are last in memory.
"""

from __future__ import annotations

import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_error, describe_value
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.task import TrainingStart
from slotwise.torch.module import FlatModule
from slotwise.torch.objective import TEST_LOSS, Objective, is_labelled
from slotwise.torch.randomness import SeededOperations
from slotwise.torch.samples import ArrayBatches, Batches, TorchSamples, arrange

UNSEEDED = (
    "TorchTask: the module, a metric or a data set draws random numbers that cannot be seeded"
    " (from random, numpy.random or torch's default generator in C++); draw them with torch"
)


class Checks(NamedTuple):
    """Needs of a module.

    Attributes:
        channels_last: The module can work on images with the channels last in memory.
        random_training: It draws random numbers in training.
        random_evaluation: It draws random numbers in evaluation.
    """

    channels_last: bool
    random_training: bool
    random_evaluation: bool


def check_module(
    flat: FlatModule,
    model: Vector,
    data: Batches,
    objective: Objective,
    training: LocalTraining,
) -> Checks:
    """Compute the gradient and the evaluation of one batch; raise a UserError that says what is wrong."""

    def check() -> Checks:
        torch.set_num_threads(1)  # as in a worker, so that sums are equal to the bit
        return _Check(flat, model, data, objective, training).run()

    with ThreadPoolExecutor(1, thread_name_prefix="slotwise-check") as pool:  # settings are of a thread
        return pool.submit(check).result()


@dataclass
class _Check:
    flat: FlatModule
    model: Vector
    data: Batches
    objective: Objective
    training: LocalTraining
    channels_last: bool = True

    def run(self) -> Checks:
        states = _other_generators()
        try:
            training = self._train()
        except UserError:
            # A module that calls `view` on images may not work on another order in memory.
            self.channels_last = False
            training = self._train()
        evaluation = self._evaluate()
        self._read_every_device()
        if _other_generators() != states:
            raise UserError(UNSEEDED)
        return Checks(self.channels_last, training, evaluation)

    def _train(self) -> bool:
        """Compute a gradient twice; return whether random operations were seen."""
        states = _other_generators()
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Using a target size", UserWarning)
            (seen, one), (_, other) = self._gradient(), self._gradient()
        if _other_generators() != states:
            raise UserError(UNSEEDED)
        if self.flat.device.type == "cpu" and one.tobytes() != other.tobytes():
            raise UserError(
                "TorchTask: two trainings from the same model differ: the module or the data set keeps a"
                " state outside its buffers; a local update must depend on the model alone"
            )
        return seen

    def _gradient(self) -> tuple[bool, Any]:
        """Return whether random operations were seen, and the gradient of one batch."""
        flat, training = self.flat, self.training
        flat.load(self.model)
        flat.gradient.zero_()
        flat.train()
        fewest = self._device_with_shortest_batch()
        rows = min(self.data.batches(training, TrainingStart(fewest, 0)), key=len)
        with SeededOperations(training.seed) as mode:
            inputs, targets = self._batch(rows, test=False)
            source, hint = self._describe_device(fewest), self._hint()
            outputs = _call("the module", flat.module, inputs, source=source, hint=hint)
            value = self._loss(outputs, targets, len(rows))
            forward = mode.seen
            self._check_leaves(value)
            _call("the gradient of the loss", value.backward)
        if mode.seen != forward:
            raise UserError(
                "TorchTask: random numbers are drawn while gradients are computed, as activation"
                " checkpointing does; they must be drawn in the forward pass"
            )
        return bool(forward), flat.gradient.cpu().numpy().copy()

    def _device_with_shortest_batch(self) -> int:
        """Return a device one of whose batches is shortest: a batch normalisation fails on one sample."""
        counts = [self.data.count(device) for device in range(1, len(self.data) + 1)]
        batching, size = self.training.batching, self.training.batch_size  # later sizes are not tried
        shortest = {count: (batching.lengths(count, size).min(), count) for count in set(counts)}
        return 1 + min(range(len(counts)), key=lambda device: shortest[counts[device]])

    def _hint(self) -> str:
        raw = isinstance(self.data, ArrayBatches) and self.data.has_raw_images
        return "; give the Dataset offset and scale, so that uint8 images become float32" if raw else ""

    def _describe_device(self, device: int) -> str:
        count = self.data.count(device)
        return f" of device {device}, which has {count} sample{'s' if count > 1 else ''}"

    def _read_every_device(self) -> None:
        """Read one sample of each torch data set."""
        if isinstance(self.data, TorchSamples):
            with SeededOperations(self.training.seed):
                for row in self.data.first_rows:
                    self._batch(row[np.newaxis], test=False)

    def _check_leaves(self, loss: Tensor) -> None:
        """Refuse a loss whose gradient reaches tensors that are not parameters of the thread's copy."""
        own = {id(parameter) for parameter in self.flat.module.parameters()}
        foreign = [leaf for leaf in _leaves(loss) if id(leaf) not in own]
        if foreign:
            raise UserError(
                f"TorchTask: the loss depends on {describe_tensors(foreign[0])}, which would not be trained:"
                " it is no parameter of the module's copy; use layers and parameters as attributes of self,"
                " not in lambdas, closures or hooks that hold the original"
            )

    def _batch(self, rows: Any, *, test: bool) -> tuple[Any, Any]:
        read = self.data.test_batch if test else self.data.train_batch
        inputs, targets = _call("reading samples", read, rows, describe=False)
        return (
            arrange(inputs, self.flat.device, channels_last=self.channels_last),
            arrange(targets, self.flat.device, channels_last=False),
        )

    def _loss(self, outputs: Any, targets: Any, count: int) -> Tensor:
        """Return the loss of a batch after checking labels and shapes."""
        self._check_scores(outputs)
        if is_labelled(outputs, targets) and self.objective.label_loss:
            self._check_labels(outputs.shape[1])
        metric = self.objective.metrics["test_loss"]
        value = _call("the loss", metric, outputs, targets)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise UserError(f"TorchTask: the loss must return a float tensor, not {describe_tensors(value)}")
        if value.dim() and value.shape[0] != count:
            raise UserError(
                f"TorchTask: the loss must return one number, or one for each of {count} samples;"
                f" it returned {describe_tensors(value)}"
            )
        if not value.requires_grad:
            raise UserError("TorchTask: the loss does not depend on the module's parameters")
        return self.objective.loss(outputs, targets)

    def _check_scores(self, outputs: Any) -> None:
        """Refuse a loss of labels for a module with one output, which cross_entropy maps to 0."""
        if not self.objective.label_loss or not isinstance(outputs, Tensor):
            return
        if outputs.dim() > 1 and outputs.shape[1] == 1:
            raise UserError(
                "TorchTask: the loss compares the scores of classes, but the module has one output; give"
                " loss=nn.functional.mse_loss for a regression, or one output for each class"
            )

    def _check_labels(self, classes: int) -> None:
        """Refuse labels that have no score."""
        if not isinstance(self.data, ArrayBatches):
            return  # which can be checked without reading everything
        for smallest, largest in self.data.label_ranges(self.objective.ignored):
            if smallest < 0 or largest >= classes:
                wrong = smallest if smallest < 0 else largest
                raise UserError(
                    f"TorchTask: the data has label {wrong}, but the module has {classes} outputs;"
                    f" labels must be from 0 to {classes - 1}"
                )

    @torch.no_grad()
    def _evaluate(self) -> bool:
        """Evaluate one batch of the test; return whether random operations were seen."""
        flat = self.flat
        flat.load(self.model)
        flat.eval()
        rows = self.data.test_rows[: max(2, self.training.batch_size)]
        with SeededOperations(self.training.seed) as mode:
            inputs, targets = self._batch(rows, test=True)
            outputs = _call("the module", flat.module, inputs)
            for name, metric in self.objective.metrics.items():
                value = _call(f"metric {name}", metric, outputs, targets)
                single = isinstance(value, int | float | np.number)
                shapes = [(), (len(rows),), getattr(targets, "shape", ())]
                if name == TEST_LOSS and isinstance(value, Tensor):
                    shapes.append((len(rows), *value.shape[1:]))  # all that the training takes
                each = isinstance(value, Tensor) and value.shape in shapes
                if not single and not each:
                    raise UserError(
                        f"TorchTask: metric {name} must return one number, or one for each of {len(rows)}"
                        f" samples or each target; it returned {describe_tensors(value)}"
                    )
        return bool(mode.seen)


def _call(
    what: str, function: Any, *arguments: Any, describe: bool = True, source: str = "", hint: str = ""
) -> Any:
    """Call a function of the user; name what failed, what it was given, the source of that, and a hint."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except Exception as error:
        given = " and ".join(describe_tensors(value) for value in arguments) if describe else ""
        on = f" on {given}{source}" if given else ""
        raise UserError(f"TorchTask: {what} failed{on}: {describe_error(error)}{hint}") from error


def describe_tensors(value: object) -> str:
    """Return type and shape of a tensor, or of the tensors in a list, or the type of another value."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple) and value:
        return f"({', '.join(map(describe_tensors, value))})"
    return describe_value(value)


def _leaves(value: Tensor) -> list[Tensor]:
    """Return the tensors in which the backward pass of ``value`` stores gradients."""
    found, seen, nodes = [], set(), [value.grad_fn]
    while nodes:
        node: Any = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        nodes += [following for following, _ in node.next_functions]
    return found


def _other_generators() -> tuple[Any, ...]:
    """Return the state of the generators that several threads share."""
    numpy_state: Any = np.random.get_state(legacy=False)["state"]
    numbers = numpy_state["key"].tobytes(), numpy_state["pos"]
    return random.getstate(), numbers, torch.get_rng_state().numpy().tobytes()
