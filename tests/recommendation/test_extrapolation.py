from math import exp, inf

import pytest

from slotwise.recommendation.metric import Measured, optimistic_loss


def curve(*losses: float) -> list[Measured]:
    """Return a curve with an evaluation every ten slots."""
    return [Measured(10 * number, loss) for number, loss in enumerate(losses)]


def test_a_curve_is_extrapolated_from_where_learning_began_to_its_end() -> None:
    falling = [Measured(slot, 2 * exp(-slot / 30)) for slot in range(0, 81, 2)]
    assert optimistic_loss(falling, 40, 80) == pytest.approx(falling[-1].loss)
    flattening = [Measured(slot, 2 / (1 + slot / 5)) for slot in range(0, 81, 2)]
    assert optimistic_loss(flattening, 40, 80) < flattening[-1].loss
    assert optimistic_loss(curve(8.0, 4.0, 1.0, 1.0, 1.0), 40, 80) == 1.0
    late = [Measured(slot, 2.0 if slot < 30 else 2 * exp(-(slot - 30) / 10)) for slot in range(0, 81, 2)]
    assert optimistic_loss(late, 36, 80) == pytest.approx(late[-1].loss, rel=0.5)
    smooth, spiky = curve(8.0, 4.0, 2.0, 1.5, 1.0), curve(8.0, 4.0, 2.0, 90.0, 1.0)
    assert optimistic_loss(spiky, 40, 80) == optimistic_loss(smooth, 40, 80) == pytest.approx(0.25)
    known = curve(8.0, 4.0, 2.0)
    assert optimistic_loss([*known, Measured(30, 1e-9)], 20, 80) == optimistic_loss(known, 20, 80)
    assert optimistic_loss(curve(2.0, 1.0, 1.2), 20, 20) == 1.0


@pytest.mark.parametrize("losses", [(2.3, 2.29, 2.4), (2.3, 2.2, 2.1), (1.0, -0.5, -1.0), (1.0, 0.5, 0.0)])
def test_what_has_not_begun_to_learn_or_is_not_positive_may_end_anywhere(losses: tuple[float, ...]) -> None:
    assert optimistic_loss(curve(*losses), 20, 80) == -inf
