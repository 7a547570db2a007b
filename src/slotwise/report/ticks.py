"""Which numbers of an axis to write so that none touches the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise


def ticks(numbers: Sequence[int], place: Callable[[int], float], width: Callable[[int], float]) -> list[int]:
    """All of the numbers, or the multiples of the smallest of 5, 10, 20, 50, … that have room.

    Args:
        numbers: what could be written, ascending.
        place: where a number begins.
        width: the room a number needs, with the gap to its neighbour.
    """
    candidates = ([number for number in numbers if number % step == 0] for step in _steps())
    return next(
        chosen
        for chosen in candidates
        if all(place(after) - place(before) >= width(before) for before, after in pairwise(chosen))
    )


def _steps() -> Iterator[int]:
    yield 1
    power = 1
    while True:
        yield from (5 * power, 10 * power, 20 * power)
        power *= 10
