import pytest

from slotwise.report.number_text import counted, loss_text


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (0.12345, "0.1235"),
        (0.0001, "0.0001"),
        (8.07e-5, "8.1e-5"),
        (0.0, "0.0000"),
        (99_999.0, "99999.0000"),
        (31118927445868420376271081439232.0, "3.1e31"),
        (-2.5e7, "-2.5e7"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_tiny_or_huge_loss_is_short(loss: float, text: str) -> None:
    assert loss_text(loss) == text


def test_one_has_no_plural() -> None:
    assert [counted(number, "round") for number in (0, 1, 2000)] == ["0 rounds", "1 round", "2,000 rounds"]
