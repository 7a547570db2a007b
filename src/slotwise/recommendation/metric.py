"""The metric by which candidates are judged on a rung, and how sure a comparison by it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.costs import Powers, joules, usage_until
from slotwise.errors import InputError
from slotwise.learning import Point
from slotwise.recommendation.halving import Score
from slotwise.runs import RunConfig

Quantity = Literal["loss", "accuracy"]
MetricName = Literal["loss", "accuracy", "joules-to-target"]
JUDGED_PART = 0.25  # of the slots so far: a tenth would be a single evaluation on the first rung
RESAMPLES = 2_000


@dataclass(frozen=True)
class Target:
    """A training loss or a test accuracy to reach."""

    quantity: Quantity
    value: float

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target such as ``accuracy=0.9`` or ``loss=0.2``."""
        quantity, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if quantity == "accuracy" and 0 < value <= 1:
            return cls("accuracy", value)
        if quantity == "loss" and value > 0 and isfinite(value):
            return cls("loss", value)
        raise InputError("target", text, "accuracy=X with X above 0 and at most 1, or loss=X with X above 0")

    def __str__(self) -> str:
        return f"{self.quantity}={self.value:g}"

    def reached(self, points: Sequence[Point]) -> Point | None:
        """Return the first evaluation that reaches the target."""
        if self.quantity == "accuracy":
            return next((point for point in points if point.accuracy >= self.value), None)
        return next((point for point in points if point.loss <= self.value), None)


class Reading(NamedTuple):
    """Training losses and test accuracies of one pilot in the last quarter of the slots up to one rung."""

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    joules: float | None = None  # until the target was first reached; None if it was not, or without target


@dataclass(frozen=True)
class Metric:
    """Training loss, test accuracy, or joules until a target, which needs the target and powers."""

    name: MetricName = "loss"
    target: Target | None = None
    powers: Powers | None = None

    def __post_init__(self) -> None:
        if self.name != "joules-to-target":
            if self.target is not None:
                raise InputError("target", self.target, "omitted unless the metric is joules-to-target")
        elif self.target is None:
            raise InputError("target", "missing", "given for joules-to-target: accuracy=0.9 or loss=0.2")
        elif self.powers is None:
            raise InputError("metric", self.name, "loss or accuracy unless powers are given")

    def settled(self, points: Sequence[Point]) -> bool:
        """Return whether training longer cannot change how a pilot is judged."""
        return self.target is not None and self.target.reached(points) is not None

    def read(self, config: RunConfig, points: Sequence[Point], slot: int) -> Reading:
        """Return the figures of a curve up to the slot of a rung."""
        judged = [point for point in points if point.slot > (1 - JUDGED_PART) * slot] or [points[-1]]
        losses, accuracies = tuple(p.loss for p in judged), tuple(p.accuracy for p in judged)
        first = self.target.reached(points) if self.target else None
        if first is None or self.powers is None:
            return Reading(losses, accuracies)
        spent = joules(usage_until(config.simulate(), [first.slot]), self.powers)
        return Reading(losses, accuracies, float(spent[0]))

    @property
    def value_name(self) -> str:
        """The name of its values in tables."""
        return "joules" if self.target else self.quantity

    @property
    def quantity(self) -> Quantity:
        """The quantity of a curve that it reads."""
        return self.target.quantity if self.target else "accuracy" if self.name == "accuracy" else "loss"

    def text(self, value: float) -> str:
        """Return a value with its unit."""
        if self.target:
            return f"{value:,.0f} J"
        return f"{value:.2%}" if self.quantity == "accuracy" else f"{value:.4f}"

    def value(self, reading: Reading) -> float | None:
        """Return the value of a reading; None if the target was not reached."""
        if self.target:
            return reading.joules
        return fmean(reading.accuracies if self.quantity == "accuracy" else reading.losses)

    def samples(self, reading: Reading) -> tuple[float, ...] | None:
        """Return the numbers whose mean decides, lower is better; None if the target was not reached."""
        if self.target:
            return None if reading.joules is None else (reading.joules,)
        if self.quantity == "accuracy":
            return tuple(-accuracy for accuracy in reading.accuracies)
        return reading.losses

    def score(self, readings: Sequence[Reading]) -> Score:
        """Return one score for the readings of a candidate with each seed; lower is better.

        With a target the number of seeds that missed it comes first. Among candidates that reached it with
        all seeds, fewer joules are better; among the others, a lower loss of the seeds that missed it. The
        loss of a seed that reached it does not count: its training ended there.
        """
        samples = [self.samples(reading) for reading in readings]
        missing = [reading.losses for reading, found in zip(readings, samples, strict=True) if found is None]
        mean = fmean(map(fmean, missing or filter(None, samples)))
        return (len(missing), mean) if self.target else (mean,)


@dataclass(frozen=True)
class Confidence:
    """The best candidate compared with the runner-up on the last rung they both reached."""

    seeds: int
    seeds_won: int
    resamples_won: float | None  # share of resamples in which it is better; None with nothing to resample


def confidence(metric: Metric, best: Sequence[Reading], runner_up: Sequence[Reading]) -> Confidence:
    """Compare the readings of two candidates with the same seeds in the same order."""
    pairs = list(zip(best, runner_up, strict=True))
    won = sum(metric.score([one]) < metric.score([other]) for one, other in pairs)
    return Confidence(len(pairs), won, _resamples_won(metric, pairs))


def _resamples_won(metric: Metric, pairs: Sequence[tuple[Reading, Reading]]) -> float | None:
    """Return the share of bootstrap resamples in which the first of each pair is better.

    A resample draws as many seeds with replacement, and for each of them as many evaluations of both curves.
    The draws are the same every time, so the result is a function of the curves.
    """
    samples = [(metric.samples(one), metric.samples(other)) for one, other in pairs]
    known = [(np.array(one), np.array(other)) for one, other in samples if one and other]
    if len(known) < len(pairs) or max(len(pairs), *(len(values) for both in known for values in both)) == 1:
        return None
    draw = np.random.Generator(np.random.Philox(key=0))
    shape = (RESAMPLES, len(pairs))

    def resampled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        drawn = values[draw.integers(len(values), size=(*shape, len(values)))]
        return np.asarray(drawn.mean(axis=2))

    differences = np.array([resampled(one) - resampled(other) for one, other in known])
    seeds = draw.integers(len(pairs), size=shape)
    means = differences[seeds, np.arange(RESAMPLES)[:, None], np.arange(len(pairs))].mean(axis=1)
    return float((means < 0).mean())
