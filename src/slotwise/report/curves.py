"""Content of a figure of curves, independent of how it is drawn: lines, panels, titles, spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import cos, floor, isnan, log10, nan, pi, sin, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.base.errors import InputError
from slotwise.learning import Point
from slotwise.learning.task import NO_METRICS
from slotwise.report.colours import Colour, Dash, Subject, line_looks
from slotwise.runs.saved_run import MeasuredPoint

Spread = Literal["min-max", "std", "95%"]
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Mean over the seeds, and the bounds of its spread."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def interval(values: ArrayLike, spread: Spread) -> Interval:
    """Return mean and spread over the first axis, the seeds; both bounds are the mean if there is one seed.

    The spread reaches from the lowest to the highest value, one sample standard deviation s to both sides, or
    t·s/√n, the confidence interval of the mean of n normally distributed values.
    """
    rows = np.asarray(values, dtype=float)
    mean, seeds = rows.mean(axis=0), len(rows)
    if seeds == 1 or spread == "min-max":
        return Interval(mean, rows.min(axis=0), rows.max(axis=0))
    half = np.std(rows, axis=0, ddof=1)
    if spread == "95%":
        half = t_quantile(seeds - 1) * half / sqrt(seeds)
    return Interval(mean, mean - half, mean + half)


@cache
def t_quantile(freedom: int) -> float:
    """Return the t with P(|T| ≤ t) = 0.95 for Student's distribution with ``freedom`` degrees of freedom."""
    low, high = 0.0, pi / 2  # t = √ν·tan θ, and the probability grows with θ
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return sqrt(freedom) * sin(low) / cos(low)


def _within(angle: float, freedom: int) -> float:
    """Return P(|T| ≤ √ν·tan θ), a finite sum for whole ν (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    term = total = cos(angle) if freedom % 2 else 1.0
    for k in range(2 + freedom % 2, freedom, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    if freedom % 2 == 0:
        return sin(angle) * total
    return 2 / pi * (angle + (sin(angle) * total if freedom > 1 else 0.0))


Across = Literal["slot", "seconds", "round", "updates", "joules", "value"]
Up = str  # loss, accuracy or a metric of the points
Numbers = NDArray[np.float64]

AXIS_TITLES = {
    "slot": "time slots",
    "seconds": "time (s)",
    "round": "training rounds",
    "updates": "updates applied",
    "joules": "joules of all devices",
    "value": "value",
    "loss": "training loss",
    "accuracy": "test accuracy (%)",
}
ACROSS_NAMES: dict[Across, str] = {"slot": "slots", "seconds": "seconds", "round": "rounds"}
ACROSS_NAMES |= {"updates": "updates", "joules": "joules", "value": "values"}
USUAL_TOP = 10.0  # end of a loss axis: four times the loss of guessing among ten classes


class Band(NamedTuple):
    """Mean and spread over the seeds at each of ``places`` on the horizontal axis."""

    places: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers


class FinalPoint(NamedTuple):
    """Final loss, accuracy (0 to 1) and further metrics of a run with one value of a parameter."""

    value: float
    loss: float
    accuracy: float
    metrics: Mapping[str, float] = NO_METRICS


AnyPoint = Point | MeasuredPoint | FinalPoint


class LossRange(NamedTuple):
    """Range of a loss axis; ``cut`` if it ends below single points that would flatten all other curves."""

    low: float
    high: float
    cut: bool


@dataclass(frozen=True)
class Line:
    """One curve of a figure: the evaluations of the same run with one or several seeds."""

    label: str
    colour: Colour
    dash: Dash
    seeds: tuple[Sequence[AnyPoint], ...]
    slot_seconds: float = nan  # if not known

    def has(self, up: Up) -> bool:
        """Return whether any evaluation has a value of it."""
        return any(not isnan(_value(point, up)) for points in self.seeds for point in points)

    def places(self, across: Across) -> list[Numbers]:
        """Return the positions at which each seed was evaluated."""
        name, scale = ("slot", self.slot_seconds) if across == "seconds" else (across, 1.0)
        return [scale * np.array([getattr(p, name) for p in points], dtype=float) for points in self.seeds]

    def band(self, across: Across, up: Up, spread: Spread = "min-max") -> Band:
        """Return values over the seeds at every place where any was evaluated; accuracies in per cent.

        Seeds with random fleets are evaluated at different places, so they are interpolated linearly. The
        band ends where the shortest seed ends.
        """
        scale = 100.0 if up == "accuracy" else 1.0
        places = self.places(across)
        values = [np.array([scale * _value(p, up) for p in points], dtype=float) for points in self.seeds]
        shared = np.empty(0)
        if places and all(map(len, places)):
            every = np.unique(np.concatenate(places))
            first, last = max(row[0] for row in places), min(row[-1] for row in places)
            shared = every[(first <= every) & (every <= last)]
        if not len(shared):
            return Band(shared, shared, shared, shared)
        rows = np.array([np.interp(shared, *curve) for curve in zip(places, values, strict=True)])
        return Band(shared, *interval(rows, spread))


class NamedCurve(NamedTuple):
    """A curve before it has a colour: its label, the evaluations of each seed, and what it is of."""

    label: str
    seeds: tuple[Sequence[AnyPoint], ...]
    subject: Subject = Subject()
    slot_seconds: float = nan


def coloured(curves: Sequence[NamedCurve]) -> tuple[Line, ...]:
    """Return the lines of a figure, coloured by schedule or group size if they differ in one."""
    looks = line_looks([curve.subject for curve in curves])
    return tuple(
        Line(curve.label, look.colour, look.dash, curve.seeds, curve.slot_seconds)
        for curve, look in zip(curves, looks, strict=True)
    )


def _value(point: AnyPoint, up: Up) -> float:
    """Return loss, accuracy or another metric of a point; NaN if it does not have the metric."""
    if up in ("loss", "accuracy"):
        return float(getattr(point, up))
    return point.metrics.get(up, nan)


def metric_title(metric: Up) -> str:
    """Return a metric at the beginning of a title; names that a task has given stay as they are."""
    return metric.capitalize() if metric in ("loss", "accuracy") else metric


def check_metric(metric: str, *names: str, parameter: str = "metric") -> None:
    """Raise an InputError unless ``metric`` is one of ``names``."""
    if metric not in names:
        raise InputError(parameter, metric, f"a metric of the results: {', '.join(names)}")


MANY_TIMES = 8  # the rounds of one line, compared with those of another


@dataclass(frozen=True)
class Panel:
    """One pair of axes; ``across_label`` replaces the usual title of the horizontal one."""

    title: str  # empty if the titles of the axes say it all
    across: Across
    up: Up
    lines: tuple[Line, ...]
    across_label: str = ""

    @property
    def heading(self) -> str:
        """The title, or what the axes show."""
        return self.title or f"{metric_title(self.up)} against {ACROSS_NAMES[self.across]}"

    @property
    def across_title(self) -> str:
        """Title of the horizontal axis."""
        return self.across_label or AXIS_TITLES[self.across]

    @property
    def up_title(self) -> str:
        """Title of the vertical axis."""
        title = AXIS_TITLES.get(self.up, self.up)
        return f"final {title}" if self.across == "value" else title

    @property
    def has_log_rounds(self) -> bool:
        """True if one line has so many more rounds than another that a linear axis would hide the shorter."""
        if self.across != "round":
            return False
        ends = [float(seed[-1]) for line in self.lines for seed in line.places("round") if len(seed)]
        return max(ends, default=0) > MANY_TIMES * min(ends, default=0) > 0


@dataclass(frozen=True)
class CurveFigure:
    """A figure of one or several panels; its name is that of its files.

    Attributes:
        name: Name of its files.
        title: Title on a page.
        caption: Caption on a page.
        panels: One pair of axes each.
        legend_title: Explains the symbols of the legend.
        compared: Lines of a figure it is compared with, so that both have one range of losses.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend_title: str = ""
    compared: tuple[Line, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines, each once, for the legend."""
        return tuple({line.label: line for panel in self.panels for line in panel.lines}.values())

    @property
    def losses(self) -> LossRange:
        """Range of the loss axes, the same in all panels."""
        return self.loss_range("min-max")

    def loss_range(self, spread: Spread) -> LossRange:
        """Return the range of the loss axes, with bands of this spread.

        Below, a deviation may reach 0 or less, where no loss is, so the axis ends at the lowest mean.
        """
        drawn: dict[int, tuple[Line, Across]] = {id(line): (line, "slot") for line in self.compared}
        drawn |= {id(line): (line, panel.across) for panel in self.panels for line in panel.lines}
        all_bands = [line.band(across, "loss", spread) for line, across in drawn.values()]
        bands = [band for band in all_bands if len(band.places)]
        lowest = (band.low if spread == "min-max" else band.mean for band in bands)
        low = min((float(values.min()) for values in lowest), default=0.1)
        high = max((float(band.high.max()) for band in bands), default=1.0)
        usual = max((2 * float(np.median(band.mean)) for band in bands), default=0.0)
        top = USUAL_TOP
        if usual > top:  # round up to 1, 2 or 5 times a power of ten
            power = 10.0 ** floor(log10(usual))
            top = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= usual)
        return LossRange(low, min(high, top), high > top)


def loss_and_accuracy(lines: tuple[Line, ...], metric: str = "accuracy") -> tuple[Panel, ...]:
    """Return the three views of the paper: loss and accuracy against slots, loss against rounds.

    Another ``metric`` replaces the accuracy, which is left out if there is none, as in a regression.
    """
    quality = Panel("", "slot", metric, lines)
    has_none = any(any(line.seeds) for line in lines) and not any(line.has(metric) for line in lines)
    return (
        Panel("", "slot", "loss", lines),
        *(() if has_none else (quality,)),
        Panel("", "round", "loss", lines),
    )
