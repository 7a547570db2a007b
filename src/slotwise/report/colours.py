"""Colours, markers and dashes of curves: the same in figures, pages, notebooks and the explorer.

A schedule has one colour everywhere, and so has a group size. Where curves differ in neither, they take the
colours of the palette in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Literal, NamedTuple

Dash = Literal["solid", "dashed", "dashdot", "dotted"]
STROKES: dict[Dash, tuple[float, ...]] = {  # lengths of strokes and gaps, in widths of the line
    "solid": (),
    "dashed": (4, 1.6),
    "dashdot": (5, 1.5, 1, 1.5),
    "dotted": (1, 1.5),
}
DASHES = tuple(STROKES)
PAGE_WIDTH = 2  # pixels: of a line on a page


class Colour(NamedTuple):
    """A colour on light and on dark background, and its marker, for print without colours."""

    light: str
    dark: str
    marker: str  # one of matplotlib's


# The palette of Okabe and Ito, which colour-blind readers can tell apart; lightened on dark background.
BLUE = Colour("#0072B2", "#3D9FE0", "o")
VERMILLION = Colour("#D55E00", "#F0803C", "s")
GREEN = Colour("#009E73", "#20C497", "^")
PINK = Colour("#CC79A7", "#E2A0C4", "D")
ORANGE = Colour("#E69F00", "#F2B840", "v")
SKY = Colour("#56B4E9", "#8FD3FA", "P")
BLACK = Colour("#1A1A1A", "#F2F2F2", "X")
COLOURS = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY, BLACK)
MARKERS = tuple(colour.marker for colour in COLOURS)
# Of further curves of a schedule, which are dashed and so have hollow markers: polygons, not crosses.
HOLLOW_MARKERS = ("D", "v", "p", ">", "h", "<")
MOST_LOOKS = len(COLOURS) * len(DASHES)  # that can be told apart

SCHEDULE_COLOURS = {"sync": VERMILLION, "async": BLUE, "idfl": GREEN}
OTHER_SCHEDULES = (PINK, ORANGE, SKY, BLACK)  # of policies of the user's own, in turn

# Group sizes are an order, so their colours go from dark to light, and avoid those of the schedules.
SIZE_RAMP = ("#1D1147", "#51127C", "#832681", "#B73779", "#E75263", "#F5804F", "#F2A65A")
SIZE_MARKERS = {1: "o", 2: "P", 5: "s", 10: "^", 20: "D", 25: "D", 50: "v", 100: "X"}
LARGEST_SIZE = 100  # larger ones have its colour


class LineLook(NamedTuple):
    """Colour and dash of a curve."""

    colour: Colour
    dash: Dash = "solid"


class Subject(NamedTuple):
    """Schedule and group size of the runs of a curve; empty and 0 if not known."""

    schedule: str = ""
    group_size: int = 0


def size_colour(group_size: int) -> Colour:
    """Return the colour of a group size: the larger, the lighter, by its logarithm."""
    place = min(1.0, log(max(1, group_size)) / log(LARGEST_SIZE)) * (len(SIZE_RAMP) - 1)
    lower = min(int(place), len(SIZE_RAMP) - 2)
    light = _mix(SIZE_RAMP[lower], SIZE_RAMP[lower + 1], place - lower)
    dark = _mix(light, "#FFFFFF", 0.55 - 0.08 * place)
    return Colour(light, dark, SIZE_MARKERS.get(group_size, MARKERS[group_size % len(MARKERS)]))


def line_looks(subjects: Sequence[Subject]) -> list[LineLook]:
    """Return a look for each curve of a figure, no two alike as long as there are enough.

    Curves of several schedules, and a single one, have the colours of the schedules, and dashes if a schedule
    has several curves. Curves of one schedule with a group size each have the colours of the sizes. Others
    take the palette.
    """
    schedules = Counter(subject.schedule for subject in subjects)
    sizes = Counter(subject.group_size for subject in subjects)
    several = len(subjects) == 1 or len(schedules) > 1
    if several and any(schedules) and max(schedules.values()) <= len(DASHES):
        return _schedule_looks([subject.schedule for subject in subjects])
    if len(sizes) > 1 and 0 not in sizes and max(sizes.values()) == 1:
        return _size_looks([subject.group_size for subject in subjects])
    return [palette_look(number) for number in range(len(subjects))]


def page_strokes(dash: Dash) -> list[float]:
    """Return the lengths of strokes and gaps of a line on a page, in pixels."""
    return [PAGE_WIDTH * length for length in STROKES[dash]]


def palette_look(number: int) -> LineLook:
    """Return the look of the curve with this number, if nothing is known of it."""
    return LineLook(COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)])


def schedule_colours(schedules: Sequence[str]) -> dict[str, Colour]:
    """Return the colour of each schedule; those of the user's own get further ones in turn."""
    own = [name for name in dict.fromkeys(schedules) if name not in SCHEDULE_COLOURS]
    others = {name: OTHER_SCHEDULES[number % len(OTHER_SCHEDULES)] for number, name in enumerate(own)}
    return {name: (SCHEDULE_COLOURS | others)[name] for name in schedules}


def _schedule_looks(schedules: Sequence[str]) -> list[LineLook]:
    """Return the colours of schedules; further curves of a schedule have other dashes and markers."""
    colours, seen, looks = schedule_colours(schedules), Counter[str](), []
    names = list(colours)
    for name in schedules:
        colour, before = colours[name], seen[name]
        if before:
            place = names.index(name) + len(names) * (before - 1)
            colour = colour._replace(marker=HOLLOW_MARKERS[place % len(HOLLOW_MARKERS)])
        looks.append(LineLook(colour, DASHES[before % len(DASHES)]))
        seen[name] += 1
    return looks


def _size_looks(sizes: Sequence[int]) -> list[LineLook]:
    """Return the colours of group sizes; a marker that another size has already is replaced by a free one."""
    taken: list[str] = []
    looks = []
    for size in sizes:
        colour = size_colour(size)
        free = [marker for marker in MARKERS if marker not in taken]
        marker = colour.marker if colour.marker in free or not free else free[0]
        taken.append(marker)
        looks.append(LineLook(colour._replace(marker=marker)))
    return looks


def _mix(first: str, second: str, share: float) -> str:
    """Return the colour between two, ``share`` of the way to the second."""
    pairs = zip(bytes.fromhex(first[1:]), bytes.fromhex(second[1:]), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)
