"""Whether a label fits its block, sideways or upright, and how large."""

from __future__ import annotations

from typing import NamedTuple

DIGIT = 0.64  # width of a digit as a part of the font size, in a wide font (DejaVu Sans)
MARGIN = 0.35  # room around a label, as a part of the font size

ACROSS, ACROSS_UPRIGHT = 1.18, 0.95  # room across a line of text; digits have no descenders
TURN_BELOW = 0.7


class Fit(NamedTuple):
    """How a label is written: its font size, and whether it reads upwards."""

    size: float
    upright: bool


def fit(characters: int, width: float, height: float, smallest: float, largest: float) -> Fit | None:
    """How to write so many characters in a block; None if they would be smaller than ``smallest``.

    Sideways, unless upright letters are a good deal larger. All lengths are in the unit of the font sizes.
    """
    along = characters * DIGIT + MARGIN
    sideways = Fit(min(width / along, height / ACROSS, largest), upright=False)
    upright = Fit(min(height / along, width / ACROSS_UPRIGHT, largest), upright=True)
    best = sideways if sideways.size >= TURN_BELOW * upright.size else upright
    return best if best.size >= smallest else None
