import pytest

from slotwise.errors import InputError
from slotwise.report.window import Window, window_of
from slotwise.schedule import Timeline


@pytest.mark.parametrize(
    ("text", "window"),
    [("3:9", (3, 9)), (":9", (0, 9)), ("3:", (3, 20)), (":", (0, 20)), ("3:999999", (3, 20))],
)
def test_slots_as_python_slices_them(six_async: Timeline, text: str, window: tuple[int, int]) -> None:
    assert window_of(text, six_async) == window


@pytest.mark.parametrize("text", ["", "3", "9:3", "5:5", "20:30", "-3:5", "a:b", "1:2:3", "9" * 5000 + ":"])
def test_other_slots_are_refused(six_async: Timeline, text: str) -> None:
    with pytest.raises(InputError, match="A:B with A below B, within 0:20"):
        window_of(text, six_async)


def test_a_window_is_cut_from_its_first_slot() -> None:
    assert Window(5, 50).cut(10) == Window(5, 15)


def test_a_short_window_stays() -> None:
    assert Window(5, 9).cut(10) == Window(5, 9)
