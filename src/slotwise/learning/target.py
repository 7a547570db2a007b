"""Target: a training loss or a test accuracy to reach, when a curve reaches it, and runs that stop there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal, Protocol, TypeVar, get_args

from slotwise.base.errors import InputError
from slotwise.options import Either
from slotwise.options.checks import Value, checked
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
    def of(cls, target: Target | str, parameter: str) -> Target:
        """Return a target that may be text; an error names the parameter."""
        if isinstance(target, str):
            return cls.parse(target, parameter)
        if not isinstance(target, Target):
            raise InputError(parameter, target, TARGETS)
        return target

    @classmethod
    def parse(cls, text: str, parameter: str = "target") -> Target:
        """Read a target such as ``accuracy=0.9`` or ``loss=0.2``; an error names the parameter."""
        quantity, _, number = text.partition("=")
        try:
            return cls(checked(parameter, quantity, Quantity), read_number(number))
        except ValueError:  # an InputError is one, too
            raise InputError(parameter, text, TARGETS) from None

    def __str__(self) -> str:
        return f"{self.quantity}={self.value:g}"

    def reached(self, points: Sequence[AnyPoint]) -> AnyPoint | None:
        """Return the first evaluation that reaches the target."""
        if self.quantity == "accuracy":
            return next((point for point in points if point.accuracy >= self.value), None)
        return next((point for point in points if point.loss <= self.value), None)


@dataclass(frozen=True)
class AtDeadline:
    """The usual case: a run is trained until its deadline."""

    @property
    def target(self) -> None:
        """No target ends it earlier."""
        return


@dataclass(frozen=True, kw_only=True)
class AtTarget(Value):
    """A run ends with the first evaluation that reaches a target, or at the deadline.

    Attributes:
        stop_at: End the run with the first evaluation that reaches accuracy=X or loss=X.
    """

    stop_at: str

    def __post_init__(self) -> None:
        super().__post_init__()
        Target.parse(self.stop_at, "stop_at")  # called for its check

    @property
    def target(self) -> Target:
        """The target to reach."""
        return Target.parse(self.stop_at, "stop_at")


EndChoice = Annotated[AtDeadline | AtTarget, Either((AtDeadline, AtTarget))]
