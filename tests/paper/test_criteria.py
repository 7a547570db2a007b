from math import inf, isnan

import pytest

from slotwise.learning import Point
from slotwise.paper.criteria import (
    below,
    every,
    falls,
    fluctuation,
    is_lowest,
    losses_over_same_rounds,
    lowest,
    majority,
    mean_loss,
    some,
    unanimous,
)
from slotwise.runs.saved_run import final_accuracy, final_loss


def points(*losses: float, slots: int = 10) -> list[Point]:
    return [Point(slots * i, i, loss, loss / 10, 0) for i, loss in enumerate(losses)]


def test_final_and_mean_losses_are_over_their_slots() -> None:
    curve = points(*[9.0] * 28, 1.0, 2.0, 80.0)  # slots 0 to 300: the last tenth begins after 270
    assert final_loss(curve, 300) == 2.0
    assert final_accuracy(curve, 300) == pytest.approx(0.2)
    assert final_loss(points(5.0, 4.0), 1000) == 4.0
    curve = [Point(0, 0, 4.0, 0, 0), Point(10, 1, 2.0, 0, 0), Point(40, 2, 0.0, 0, 0)]
    assert mean_loss(curve) == (10 * 3 + 30 * 1) / 40
    assert mean_loss(curve[:1]) == 4.0


def test_fluctuation_is_of_the_loss_itself_in_the_second_half_without_the_trend() -> None:
    assert fluctuation(points(4, 3, 2, 1), 0) == pytest.approx(0)
    assert fluctuation(points(1, 2, 1, 2, 1), 0) == pytest.approx(1)
    assert isnan(fluctuation(points(1, 2), 0))
    assert fluctuation(points(1, 2, 1, 2, 1), 0, accuracy=True) == pytest.approx(0.1)
    assert fluctuation(points(1, 9, 1, 9, 1, 1, 1, 1, 1), 80) == 0
    assert falls([1.0, 1.05, 0.5])
    assert not falls([1.0, 1.2, 0.5])
    assert not falls([1.0, 1.0, 1.0])


def test_ties_are_open_and_logic_is_three_valued() -> None:
    shorter = [Point(10 * k, k, 5.0 if k < 10 else 1.0, 0, 0) for k in range(11)]
    longer = [Point(2 * k, k, float(k), 0, 0) for k in range(0, 51, 5)]
    assert losses_over_same_rounds(longer, shorter) == (10.0, 1.0)
    assert below(1.0, 2.0) is True
    assert below(2.0, 1.0) is False
    assert below(1.0, 1.005) is None
    assert lowest({1: 1.0, 5: 1.005, 10: 1.2}) == (1, 5)
    assert (every([True, True]), every([True, None]), every([None, False])) == (True, None, False)
    assert (some([False, True]), some([None, False]), some([False])) == (True, None, False)
    assert (unanimous([True, True]), unanimous([False]), unanimous([True, False])) == (True, False, None)
    assert unanimous([True, None]) is None
    assert (majority([True] * 2 + [False]), majority([True, False]), majority([None, True])) == (
        True,
        False,
        None,
    )
    assert every([]) is some([]) is majority([]) is None


def test_a_collapsed_run_is_worse_than_one_that_learns() -> None:
    assert (below(1.0, inf), below(inf, 1.0), below(inf, inf)) == (True, False, None)
    assert lowest({1: inf, 5: 2.0, 10: 1.0}) == (10,)
    assert lowest({1: inf}) == ()
    assert is_lowest({1: inf, 5: 2.0, 10: 1.0}, 10) is True
    assert is_lowest({1: inf, 5: 2.0, 10: 1.0}, 1) is False
    assert is_lowest({1: inf, 10: 1.0}, 10) is True
    assert is_lowest({1: inf, 10: inf}, 10) is None
    assert is_lowest({1: inf, 5: 2.0, 10: 1.0}, 5) is False
    assert is_lowest({5: 2.0, 10: 1.0}, 10) is True
