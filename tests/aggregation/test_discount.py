import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Discount, Hinge, Polynomial, constant
from slotwise.base.errors import InputError


@pytest.mark.parametrize(
    ("discount", "expected"),
    [
        (constant, [1.0, 1.0, 1.0, 1.0, 1.0]),
        (Polynomial(1), [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
        (Polynomial(2), [1.0, 1 / 4, 1 / 9, 1 / 16, 1 / 25]),
        (Polynomial(0), [1.0, 1.0, 1.0, 1.0, 1.0]),
        (Hinge(1, 2), [1.0, 1.0, 1.0, 1 / 2, 1 / 3]),
        (Hinge(3, 1), [1.0, 1.0, 1 / 4, 1 / 7, 1 / 10]),
    ],
)
def test_the_first_five_ages(discount: Discount, expected: list[float]) -> None:
    assert [discount(d) for d in range(5)] == expected


def test_the_polynomial_discount_is_a_power() -> None:
    assert [Polynomial(0.5)(d) for d in (0, 3, 15)] == [1.0, 0.5, 0.25]


@given(
    st.one_of(
        st.floats(0, 16).map(Polynomial),
        st.builds(Hinge, st.floats(1e-3, 1e6), st.floats(0, 1e6)),
    ),
    st.integers(0, 10**9 - 1),
)
def test_it_never_rises_and_never_is_nothing(discount: Discount, age: int) -> None:
    assert 1.0 >= discount(age) >= discount(age + 1) > 0.0


@pytest.mark.parametrize("power", [-0.5, 17, float("nan"), float("inf")])
def test_a_power_outside_0_to_16_is_refused(power: float) -> None:
    with pytest.raises(InputError) as caught:
        Polynomial(power)
    assert str(caught.value) == f"power = {power}: must be a number from 0 to 16"


@pytest.mark.parametrize("slope", [0, -1, 1e7, float("nan")])
def test_a_slope_of_the_hinge_must_be_above_0(slope: float) -> None:
    with pytest.raises(InputError) as caught:
        Hinge(slope, 4)
    assert str(caught.value) == f"slope = {slope}: must be a number above 0 and at most 1,000,000"


@pytest.mark.parametrize("grace", [-1, float("inf"), float("nan")])
def test_a_grace_of_the_hinge_must_be_at_least_0(grace: float) -> None:
    with pytest.raises(InputError) as caught:
        Hinge(10, grace)
    assert str(caught.value) == f"grace = {grace}: must be a finite number, at least 0"
