"""Statistics over seeds, against numpy and the published quantiles of Student's t distribution."""

import numpy as np
import pytest

from slotwise.report.curves import interval, t_quantile

VALUES = np.array([[0.31, 2.0], [0.29, 4.0], [0.35, 9.0], [0.30, 1.0]])  # four seeds at two places


def test_a_spread_is_a_range_a_deviation_or_a_confidence_interval() -> None:
    mean, low, high = interval(VALUES, "min-max")
    np.testing.assert_allclose(mean, VALUES.sum(axis=0) / 4)
    np.testing.assert_array_equal(low, [0.29, 1.0])
    np.testing.assert_array_equal(high, [0.35, 9.0])
    mean, low, high = interval(VALUES, "std")
    np.testing.assert_allclose(high - mean, np.std(VALUES, axis=0, ddof=1))
    np.testing.assert_allclose(mean - low, high - mean)
    mean, low, high = interval(VALUES, "95%")
    np.testing.assert_allclose(high - mean, 3.182446 * np.std(VALUES, axis=0, ddof=1) / 2, rtol=1e-6)
    np.testing.assert_allclose(mean - low, high - mean)


@pytest.mark.parametrize(
    ("freedom", "published"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (9, 2.26216),
        (10, 2.22814),
        (29, 2.04523),
        (100, 1.98397),
    ],
)
def test_quantiles_of_student_s_t(freedom: int, published: float) -> None:
    assert t_quantile(freedom) == pytest.approx(published, rel=1e-5)


@pytest.mark.parametrize("kind", ["min-max", "std", "95%"])
def test_one_seed_has_no_spread(kind: str) -> None:
    for bound in interval(VALUES[:1], kind):
        np.testing.assert_array_equal(bound, VALUES[0])
