"""Objective: the loss and the metrics of a module's outputs, and the accuracy of class scores.

LabelLoss has the options of torch's losses of labels, which say how many labels the mean of a batch counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import torch
from torch import Tensor, nn

from slotwise.base.errors import InputError, UserError
from slotwise.base.user_code import check_arguments, describe_value
from slotwise.learning.task import RESERVED

Loss = Callable[[Any, Any], Tensor]
Metric = Callable[[Any, Any], Any]
TEST_LOSS = "test_loss"
FUNCTIONS = (nn.functional.cross_entropy, nn.functional.nll_loss)
FORWARDS = (nn.CrossEntropyLoss.forward, nn.NLLLoss.forward)
IGNORED = -100  # a target that torch's losses ignore by default


@dataclass(frozen=True)
class LabelLoss:
    """Options of a cross_entropy or nll_loss.

    Attributes:
        weight: Weight of each class; None if all are 1.
        ignored: Label that is not counted.
        reduction: "mean", or "none" for a number for each label.
    """

    weight: Tensor | None = None
    ignored: int = IGNORED
    reduction: str = "mean"

    def count(self, targets: Any, rows: int) -> float:
        """Return the divisor of the mean of a batch: the sum of the weights of the labels that count.

        Class probabilities, and losses for each sample, are averaged over the rows.
        """
        if self.reduction != "mean" or not isinstance(targets, Tensor) or targets.is_floating_point():
            return rows
        counted = targets != self.ignored
        if self.weight is None:
            return int(counted.sum())
        return float(self.weight[targets[counted].long()].double().sum())


def find_label_loss(loss: Callable[[Any, Any], Tensor]) -> LabelLoss | None:
    """Return the options of a loss if it is one of torch's that take labels."""
    if loss in FUNCTIONS:
        return LabelLoss()
    if isinstance(loss, nn.Module) and type(loss).forward in FORWARDS:
        return _with_options(vars(loss) | dict(loss.named_buffers()))
    if isinstance(loss, partial) and loss.func in FUNCTIONS and not loss.args:
        return _with_options(loss.keywords)
    return None


def _with_options(options: Mapping[str, Any]) -> LabelLoss:
    return LabelLoss(
        options.get("weight"), options.get("ignore_index", IGNORED), options.get("reduction", "mean")
    )


class Objective:
    """The loss that is trained, and the metrics of an evaluation, among them the test loss."""

    def __init__(self, loss: Loss, metrics: Mapping[str, Metric]) -> None:
        if not isinstance(metrics, Mapping):
            raise InputError("metrics", describe_value(metrics), "a dict of functions by name")
        for name in metrics:
            check_arguments(f"metric {name}", metrics[name], 2)
            if name == TEST_LOSS or name in RESERVED:
                raise UserError(f"TorchTask: metric {name}: the name is taken; choose another")
        _check_loss(loss)
        self.label_loss = find_label_loss(loss)
        """Options of the loss if it is one of torch's that take labels."""
        self.is_cross_entropy = _is_plain(loss, nn.functional.cross_entropy, nn.CrossEntropyLoss)
        """True if it is torch's cross-entropy of labels without options."""
        self.is_likelihood = _is_plain(loss, nn.functional.nll_loss, nn.NLLLoss)
        """True if it is torch's negative log-likelihood of labels without options."""
        self.ignored = self.label_loss.ignored if self.label_loss else IGNORED
        """Label that does not count."""
        self._loss = loss = partial(_with_integer_labels, loss) if self.label_loss else loss
        self.metrics: Mapping[str, Metric] = {TEST_LOSS: loss, **metrics}

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """Return the mean loss of a batch."""
        value = self._loss(outputs, targets)
        return value.mean() if value.dim() else value

    def count(self, targets: Any, rows: int) -> float:
        """Return the weight of the mean loss of a batch in the mean of several: its labels, or its rows."""
        return self.label_loss.count(targets, rows) if self.label_loss else rows


def _is_plain(loss: Loss, function: Loss, kind: type[nn.Module]) -> bool:
    """Return whether a loss is a function of torch, or its module without options."""
    if type(loss) is not kind:
        return loss is function
    return find_label_loss(loss) == LabelLoss() and not getattr(loss, "label_smoothing", 0.0)


def _check_loss(loss: Loss) -> None:
    """Refuse a loss that is a sum, or that has parameters of its own."""
    options: Mapping[str, Any] = {}
    if isinstance(loss, nn.Module):
        options = vars(loss)
        trained = [name for name, parameter in loss.named_parameters() if parameter.requires_grad]
        if trained:
            raise UserError(
                f"TorchTask: the loss has parameters ({', '.join(trained[:3])}), which would not be trained;"
                " make them part of the module, or set requires_grad to False"
            )
    elif isinstance(loss, partial):
        options = loss.keywords
    if options.get("reduction") == "sum":
        raise UserError("TorchTask: the loss has reduction='sum'; give reduction='mean' or 'none'")


def _with_integer_labels(loss: Loss, outputs: Any, targets: Any) -> Tensor:
    """Return the loss with boolean labels as integers."""
    is_bool = isinstance(targets, Tensor) and targets.dtype == torch.bool
    return loss(outputs, targets.long() if is_bool else targets)


class Mean:
    """Mean of the means of batches, weighted by their sizes."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0.0

    def add(self, value: Any, count: float) -> None:
        """Add the mean of ``count`` numbers; that of none, which torch computes as NaN, is left out."""
        if count:
            self._sum += float(value) * count
            self._count += count

    @property
    def value(self) -> float:
        """Mean of all numbers so far; NaN if there is none."""
        return self._sum / self._count if self._count else nan


class ChunkedMetrics:
    """The metrics of an evaluation, from chunks of test samples.

    A metric with a number for each sample is averaged over the chunks. One with a single number need not be
    a mean (F1, AUC, the worst class), so it is computed from the outputs of all samples at once.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._means = {name: Mean() for name in objective.metrics}
        self._single: dict[str, Any] = {}  # metrics with a single number, and its value for the first chunk
        self._chunks: list[tuple[Any, Any]] = []  # outputs and targets, kept for those

    def add(self, outputs: Any, targets: Any, rows: int) -> None:
        """Add the outputs and targets of a chunk of samples."""
        for name, metric in self._objective.metrics.items():
            if name in self._single:
                continue
            value = metric(outputs, targets)
            if name == TEST_LOSS:
                value = value.mean() if value.dim() else value
                self._means[name].add(value, self._objective.count(targets, rows))
            elif isinstance(value, Tensor) and value.dim():
                self._means[name].add(value.float().mean(), rows)  # torch has no mean of integers
            else:
                self._single[name] = value
        if self._single:
            self._chunks.append((outputs, targets))

    def values(self) -> dict[str, float]:
        """Return every metric of all samples that were added."""
        single = self._single
        if len(self._chunks) > 1:
            outputs, targets = map(_joined, zip(*self._chunks, strict=True))
            single = {name: self._objective.metrics[name](outputs, targets) for name in single}
        return {
            name: float(single[name]) if name in single else mean.value for name, mean in self._means.items()
        }


def _joined(parts: Sequence[Any]) -> Any:
    """Return the tensors of several chunks as one; those in a dict, list or tuple one by one."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: _joined([part[name] for part in parts]) for name in first}
    if isinstance(first, list | tuple):
        return [_joined(each) for each in zip(*parts, strict=True)]
    try:
        return torch.cat(parts)  # type: ignore[arg-type]
    except (RuntimeError, TypeError):
        raise UserError(
            "TorchTask: a metric with a single number is computed from the outputs and targets of all test"
            " samples at once, and those of different chunks do not fit together; return a number for each"
            " sample instead"
        ) from None


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


def count_correct(outputs: Any, targets: Any, ignored: int) -> tuple[float, int]:
    """Return the share of labels that have the largest score, and the number of labels; 0 for others.

    Labels that are ignored, as in padded sequences, do not count.
    """
    if not is_labelled(outputs, targets):
        return 0.0, 0
    counted = targets != ignored
    number = int(counted.sum())
    right = int(((outputs.argmax(dim=1) == targets) & counted).sum())
    return (right / number if number else 0.0), number
