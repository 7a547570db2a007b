"""Objective: the loss and the metrics of a module's outputs, and the accuracy of class scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from slotwise.errors import UserError
from slotwise.learning.task import RESERVED

Loss = Callable[[Any, Any], Tensor]
Metric = Callable[[Any, Any], Any]
TEST_LOSS = "test_loss"
LABEL_LOSSES = (nn.functional.cross_entropy, nn.functional.nll_loss)
IGNORED = -100  # a target that torch's cross_entropy ignores


class Objective:
    """The loss that is trained, and the metrics of an evaluation, among them the test loss."""

    def __init__(self, loss: Loss, metrics: Mapping[str, Metric]) -> None:
        for name in metrics:
            if name == TEST_LOSS or name in RESERVED:
                raise UserError(f"TorchTask: metric {name}: the name is taken; choose another")
        self.is_classification = loss in LABEL_LOSSES
        """True if the loss is one of torch's that take labels."""
        self._loss = loss = _with_integer_labels(loss) if self.is_classification else loss
        self.metrics: Mapping[str, Metric] = {TEST_LOSS: loss, **metrics}

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """Return the mean loss of a batch."""
        value = self._loss(outputs, targets)
        return value.mean() if value.dim() else value

    def measure(self, outputs: Any, targets: Any) -> dict[str, Any]:
        """Return the mean of every metric over a batch."""
        found = {name: metric(outputs, targets) for name, metric in self.metrics.items()}
        return {
            name: value.float().mean() if isinstance(value, Tensor) else value
            for name, value in found.items()
        }


def _with_integer_labels(loss: Loss) -> Loss:
    """Return a loss that also takes boolean labels."""

    def with_integer_labels(outputs: Any, targets: Any) -> Tensor:
        is_bool = isinstance(targets, Tensor) and targets.dtype == torch.bool
        return loss(outputs, targets.long() if is_bool else targets)

    return with_integer_labels


class Mean:
    """Mean of the means of batches, weighted by their sizes."""

    def __init__(self) -> None:
        self._sum, self.count = 0.0, 0

    def add(self, value: Any, count: int) -> None:
        """Add the mean of ``count`` numbers."""
        self._sum += float(value) * count
        self.count += count

    @property
    def value(self) -> float:
        """Mean of all numbers so far."""
        return self._sum / self.count


def is_labelled(outputs: Any, targets: Any) -> bool:
    """Return whether outputs are scores [n, classes, …] and targets labels [n, …]."""
    if (
        not isinstance(outputs, Tensor)
        or not isinstance(targets, Tensor)
        or outputs.dim() < 2
        or outputs.shape[1] < 2
    ):
        return False
    labels = not targets.is_floating_point() and outputs.dtype.is_floating_point
    return labels and targets.shape == (outputs.shape[0], *outputs.shape[2:])


def count_correct(outputs: Any, targets: Any) -> tuple[float, int]:
    """Return the share of labels that have the largest score, and the number of labels; 0 for others.

    Labels of -100, as in padded sequences, do not count.
    """
    if not is_labelled(outputs, targets):
        return 0.0, 0
    counted = targets != IGNORED
    number = int(counted.sum())
    right = int(((outputs.argmax(dim=1) == targets) & counted).sum())
    return (right / number if number else 0.0), number
