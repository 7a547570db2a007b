"""Target: a training loss or a test accuracy to reach, and when a curve reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol, TypeVar, get_args

from slotwise.base.errors import InputError
from slotwise.options.checks import checked
from slotwise.options.option_text import read_number

Quantity = Literal["loss", "accuracy"]
TARGETS = "accuracy=X with X above 0 and at most 1, or loss=X with X above 0"


class _Evaluated(Protocol):
    @property
    def loss(self) -> float: ...
    @property
    def accuracy(self) -> float: ...


AnyPoint = TypeVar("AnyPoint", bound=_Evaluated)


@dataclass(frozen=True)
class Target:
    """A training loss or a test accuracy to reach."""

    quantity: Quantity
    value: float

    def __post_init__(self) -> None:
        is_possible = 0 < self.value <= 1 if self.quantity == "accuracy" else 0 < self.value < inf
        if self.quantity not in get_args(Quantity) or not is_possible:
            raise InputError("target", self, TARGETS)

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target such as ``accuracy=0.9`` or ``loss=0.2``."""
        quantity, _, number = text.partition("=")
        try:
            return cls(checked("target", quantity, Quantity), read_number(number))
        except ValueError:  # an InputError is one, too
            raise InputError("target", text, TARGETS) from None

    def __str__(self) -> str:
        return f"{self.quantity}={self.value:g}"

    def reached(self, points: Sequence[AnyPoint]) -> AnyPoint | None:
        """Return the first evaluation that reaches the target."""
        if self.quantity == "accuracy":
            return next((point for point in points if point.accuracy >= self.value), None)
        return next((point for point in points if point.loss <= self.value), None)
