"""LabelLoss: options of torch's losses of labels, which say how many labels the mean of a batch counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

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
