"""Whether a label fits its block, sideways or upright, and how large."""

from __future__ import annotations

from typing import NamedTuple

DIGIT = 0.64  # width of a digit as a part of the font size, in a wide font (DejaVu Sans)
MARGIN = 0.35  # room around a label, as a part of the font size


class Fit(NamedTuple):
    """How a label is written: its font size, and whether it reads upwards."""

    size: float
    upright: bool


def fit(characters: int, width: float, height: float, smallest: float, largest: float) -> Fit | None:
    """The largest way to write so many characters in a block; sideways if possible, None if neither way.

    All lengths are in the unit of the font sizes.
    """
    along = characters * DIGIT + MARGIN
    for upright, length, thickness in ((False, width, height), (True, height, width)):
        size = min(length / along, thickness / (1 + MARGIN / 2 if not upright else 0.95), largest)
        if size >= smallest:
            return Fit(size, upright)
    return None
