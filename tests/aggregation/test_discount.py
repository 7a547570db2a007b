import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Discount, Hinge, Polynomial, constant


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
