"""What candidates are judged by, from the curve of a pilot up to a rung."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Literal, NamedTuple

from slotwise.costs import Powers, joules, usage_until
from slotwise.errors import InputError
from slotwise.learning import Point
from slotwise.recommendation.halving import Score
from slotwise.runs import RunConfig

Quantity = Literal["loss", "accuracy"]
MetricName = Literal["loss", "accuracy", "joules-to-target"]
JUDGED_PART = 0.25  # of the slots so far: a tenth would be a single evaluation on the first rung


@dataclass(frozen=True)
class Target:
    """A loss to come down to, or an accuracy to come up to."""

    quantity: Quantity
    value: float

    @classmethod
    def parse(cls, text: str) -> Target:
        """``accuracy=0.9`` or ``loss=0.2``."""
        quantity, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if quantity == "accuracy" and 0 < value <= 1:
            return cls("accuracy", value)
        if quantity == "loss" and value > 0 and isfinite(value):
            return cls("loss", value)
        allowed = "accuracy=X with X above 0 and at most 1, or loss=X with X above 0"
        raise InputError("target", text, allowed)

    def __str__(self) -> str:
        return f"{self.quantity}={self.value:g}"

    def reached(self, points: Sequence[Point]) -> Point | None:
        """The first evaluation that is as good."""
        if self.quantity == "accuracy":
            return next((point for point in points if point.accuracy >= self.value), None)
        return next((point for point in points if point.loss <= self.value), None)


class Reading(NamedTuple):
    """What one pilot shows on one rung.

    Attributes:
        losses: in the last quarter of the slots so far.
        accuracies: likewise.
        joules: spent until the target was first reached; None if it was not, or none is asked for.
    """

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    joules: float | None = None


@dataclass(frozen=True)
class Metric:
    """Loss, accuracy, or joules until a target; the latter needs the target and the devices' powers."""

    name: MetricName = "loss"
    target: Target | None = None
    powers: Powers | None = None

    def __post_init__(self) -> None:
        if self.name != "joules-to-target":
            if self.target is not None:
                raise InputError("target", self.target, "left out, unless with --metric joules-to-target")
        elif self.target is None:
            raise InputError("target", "missing", "given for joules-to-target: accuracy=0.9 or loss=0.2")
        elif self.powers is None:
            allowed = "loss or accuracy, unless the file given with --config has a table of [powers]"
            raise InputError("metric", self.name, allowed)

    def settled(self, points: Sequence[Point]) -> bool:
        """Whether training longer cannot change what a pilot is judged by."""
        return self.target is not None and self.target.reached(points) is not None

    def read(self, parameters: RunConfig, points: Sequence[Point], slot: int) -> Reading:
        """What a curve up to a rung's slot shows."""
        judged = [point for point in points if point.slot > (1 - JUDGED_PART) * slot] or [points[-1]]
        return Reading(
            tuple(point.loss for point in judged),
            tuple(point.accuracy for point in judged),
            self._joules(parameters, points),
        )

    def _joules(self, parameters: RunConfig, points: Sequence[Point]) -> float | None:
        if self.target is None or self.powers is None:
            return None
        first = self.target.reached(points)
        if first is None:
            return None
        return float(joules(usage_until(parameters.simulate(), [first.slot]), self.powers)[0])

    @property
    def word(self) -> str:
        """What its values are, for people."""
        return "joules" if self.target else self.quantity

    @property
    def quantity(self) -> Quantity:
        """What of the curves it looks at."""
        return self.target.quantity if self.target else "accuracy" if self.name == "accuracy" else "loss"

    def text(self, value: float) -> str:
        """A value as a person reads it."""
        if self.target:
            return f"{value:,.0f} J"
        return f"{value:.2%}" if self.quantity == "accuracy" else f"{value:.4f}"

    def value(self, reading: Reading) -> float | None:
        """What a person sees of a reading; None for a target that was not reached."""
        if self.target:
            return reading.joules
        return fmean(reading.accuracies if self.quantity == "accuracy" else reading.losses)

    def samples(self, reading: Reading) -> tuple[float, ...] | None:
        """The numbers whose mean decides, lower ones better; None for a target that was not reached."""
        if self.target:
            return None if reading.joules is None else (reading.joules,)
        if self.quantity == "accuracy":
            return tuple(-accuracy for accuracy in reading.accuracies)
        return reading.losses

    def score(self, readings: Sequence[Reading]) -> Score:
        """A candidate's readings with each seed as one score.

        For joules, with how many seeds the target was not reached comes first; among those who have reached
        it with all, fewer joules are better, among the others the lower loss with the seeds that have not.
        The loss of a seed that has is of no account: it is the one at which its training ended.
        """
        samples = [self.samples(reading) for reading in readings]
        missing = [reading.losses for reading, found in zip(readings, samples, strict=True) if found is None]
        mean = fmean(map(fmean, missing or filter(None, samples)))
        return (len(missing), mean) if self.target else (mean,)
