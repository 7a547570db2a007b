"""What a figure of curves shows, whoever draws it: lines, the panels they are in, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.learning import Point

Across = Literal["slot", "round", "updates", "joules", "value"]
Up = Literal["loss", "accuracy"]
Numbers = NDArray[np.float64]

AXIS_WORDS = {
    "slot": "time slots",
    "round": "training rounds",
    "updates": "updates applied",
    "joules": "joules of all devices",
    "value": "value",
    "loss": "global loss",
    "accuracy": "test accuracy (%)",
}
USUAL_TOP = 10.0  # of an axis of losses: four times that of guessing among ten classes


class Colour(NamedTuple):
    """On light paper, and on dark."""

    light: str
    dark: str


# Okabe and Ito's palette, told apart by colour-blind readers; on dark paper the darker ones are lightened.
BLUE = Colour("#0072B2", "#3D9FE0")
VERMILLION = Colour("#D55E00", "#F0803C")
GREEN = Colour("#009E73", "#20C497")
PINK = Colour("#CC79A7", "#E2A0C4")
ORANGE = Colour("#E69F00", "#F2B840")
SKY = Colour("#56B4E9", "#8FD3FA")
BLACK = Colour("#1A1A1A", "#F2F2F2")
COLOURS = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY, BLACK)


class Band(NamedTuple):
    """A quantity over the seeds: mean, lowest and highest at each of ``places`` on the horizontal axis."""

    places: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers


class MeasuredPoint(NamedTuple):
    """An evaluation, and what it had cost by then.

    Attributes:
        slot: when the model was complete.
        round: the number of the model.
        updates: applied so far.
        joules: spent so far by all devices; not a number if their powers are not known.
        loss: global loss over all devices' data.
        accuracy: on the test set, 0 to 1.
    """

    slot: int
    round: int
    updates: int
    joules: float
    loss: float
    accuracy: float


class FinalPoint(NamedTuple):
    """What a run has come to, against a parameter.

    Attributes:
        value: of the parameter.
        loss: over the end of the run.
        accuracy: likewise, 0 to 1.
    """

    value: float
    loss: float
    accuracy: float


AnyPoint = Point | MeasuredPoint | FinalPoint


class LossRange(NamedTuple):
    """From the lowest loss to the highest, or to where single points would press all other curves flat."""

    low: float
    high: float
    cut: bool


@dataclass(frozen=True)
class Line:
    """One curve of a figure: the same run with one or several seeds.

    Attributes:
        label: as in the legend.
        colour: of the line and its band.
        dashed: the second kind of line of a figure.
        seeds: the evaluations of each seed.
    """

    label: str
    colour: Colour
    dashed: bool
    seeds: tuple[Sequence[AnyPoint], ...]

    def places(self, across: Across) -> list[Numbers]:
        """Where each seed was evaluated."""
        return [np.array([getattr(p, across) for p in points], dtype=float) for points in self.seeds]

    def band(self, across: Across, up: Up) -> Band:
        """The values, accuracies in per cent, at every place where any seed was evaluated, as far as all are.

        Seeds with drawn fleets are evaluated at places of their own; between those they go straight.
        """
        scale = 100.0 if up == "accuracy" else 1.0
        places = self.places(across)
        values = [np.array([scale * getattr(p, up) for p in points], dtype=float) for points in self.seeds]
        shared = _shared(places)
        if not len(shared):
            return Band(shared, shared, shared, shared)
        rows = np.array([np.interp(shared, *curve) for curve in zip(places, values, strict=True)])
        return Band(shared, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))


@dataclass(frozen=True)
class Panel:
    """One pair of axes; ``words`` stand below it in place of the usual ones."""

    title: str
    across: Across
    up: Up
    lines: tuple[Line, ...]
    words: str = ""

    @property
    def across_words(self) -> str:
        """What is written below it."""
        return self.words or AXIS_WORDS[self.across]


@dataclass(frozen=True)
class CurveFigure:
    """A figure of one or several panels.

    Attributes:
        name: of its files.
        title: above it.
        caption: below it.
        panels: in reading order.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every line once, for the legend."""
        return tuple({line.label: line for panel in self.panels for line in panel.lines}.values())

    @property
    def losses(self) -> LossRange:
        """What the axes of losses show, the same in all panels."""
        all_bands = [line.band(panel.across, "loss") for panel in self.panels for line in panel.lines]
        bands = [band for band in all_bands if len(band.places)]
        low = min((float(band.low.min()) for band in bands), default=0.1)
        high = max((float(band.high.max()) for band in bands), default=1.0)
        usual = max((2 * float(np.median(band.mean)) for band in bands), default=0.0)
        top = max(USUAL_TOP, _rounded_up(usual))
        return LossRange(low, min(high, top), high > top)


def _shared(places: Sequence[Numbers]) -> Numbers:
    """The places of all, from where the last begins to where the first ends."""
    if not places or not all(len(row) for row in places):
        return np.empty(0)
    first, last = max(row[0] for row in places), min(row[-1] for row in places)
    every = np.unique(np.concatenate(places))
    shared: Numbers = every[(first <= every) & (every <= last)]
    return shared


def _rounded_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return value
    power = 10.0 ** floor(log10(value))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= value)


def loss_and_accuracy(lines: tuple[Line, ...]) -> tuple[Panel, ...]:
    """The three views of the paper: loss and accuracy against slots, loss against rounds."""
    return (
        Panel("Loss against slots", "slot", "loss", lines),
        Panel("Accuracy against slots", "slot", "accuracy", lines),
        Panel("Loss against rounds", "round", "loss", lines),
    )
