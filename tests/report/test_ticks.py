import pytest

from slotwise.report.ticks import ticks


@pytest.mark.parametrize(
    ("room", "expected"), [(2, [7, 8, 9, 10, 11, 12]), (3, [10]), (1, [7, 8, 9, 10, 11, 12])]
)
def test_numbers_that_touch_are_thinned_to_multiples(room: float, expected: list[int]) -> None:
    assert ticks(range(7, 13), lambda number: 2.0 * number, lambda _: room) == expected


def test_steps_are_those_people_count_in() -> None:
    assert ticks(range(0, 101), float, lambda _: 11) == [0, 20, 40, 60, 80, 100]


def test_nothing_to_write() -> None:
    assert ticks([], float, lambda _: 1) == []
