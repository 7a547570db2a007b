from math import exp, inf

import pytest

from slotwise.recommendation.metric import Measured, optimistic_loss


def curve(*losses: float) -> list[Measured]:
    """Return a curve with an evaluation every ten slots."""
    return [Measured(10 * number, loss) for number, loss in enumerate(losses)]


def test_an_exponential_curve_is_extrapolated_to_its_end() -> None:
    falling = [Measured(slot, 2 * exp(-slot / 30)) for slot in range(0, 81, 2)]
    assert optimistic_loss(falling, 40, 80) == pytest.approx(falling[-1].loss)


def test_a_curve_that_flattens_ends_above_its_extrapolation() -> None:
    flattening = [Measured(slot, 2 / (1 + slot / 5)) for slot in range(0, 81, 2)]
    assert optimistic_loss(flattening, 40, 80) < flattening[-1].loss


def test_the_fall_before_the_second_half_is_of_no_account() -> None:
    assert optimistic_loss(curve(8.0, 4.0, 1.0, 1.0, 1.0), 40, 80) == 1.0


def test_a_late_start_is_extrapolated_from_where_learning_began() -> None:
    late = [Measured(slot, 2.0 if slot < 30 else 2 * exp(-(slot - 30) / 10)) for slot in range(0, 81, 2)]
    assert optimistic_loss(late, 36, 80) == pytest.approx(late[-1].loss, rel=0.5)


def test_single_high_losses_are_of_no_account() -> None:
    smooth, spiky = curve(8.0, 4.0, 2.0, 1.5, 1.0), curve(8.0, 4.0, 2.0, 90.0, 1.0)
    assert optimistic_loss(spiky, 40, 80) == optimistic_loss(smooth, 40, 80) == pytest.approx(0.25)


def test_losses_after_the_slot_are_not_known() -> None:
    known = curve(8.0, 4.0, 2.0)
    assert optimistic_loss([*known, Measured(30, 1e-9)], 20, 80) == optimistic_loss(known, 20, 80)


def test_at_the_deadline_it_is_the_lowest_loss() -> None:
    assert optimistic_loss(curve(2.0, 1.0, 1.2), 20, 20) == 1.0


@pytest.mark.parametrize("losses", [(2.3, 2.29, 2.4), (2.3, 2.2, 2.1), (1.0, -0.5, -1.0), (1.0, 0.5, 0.0)])
def test_what_has_not_begun_to_learn_or_is_not_positive_may_end_anywhere(losses: tuple[float, ...]) -> None:
    assert optimistic_loss(curve(*losses), 20, 80) == -inf
