"""Numbers that are written as text."""

import pytest

from slotwise.base.errors import InputError
from slotwise.options.option_text import from_text


@pytest.mark.parametrize("text", ["1_0", "\u0661\u0662", " 1", "1 ", "", "1e", "0x10", "9" * 5000 + "_0"])
@pytest.mark.parametrize("hint", [int, float, int | None, float | None, tuple[int, ...]])
def test_what_only_python_reads_as_a_number_is_refused(text: str, hint: object) -> None:
    if hint == tuple[int, ...] and text.strip() in ("", "1"):
        return  # spaces around the items of a list, and an empty list, are fine
    with pytest.raises(InputError):
        from_text("number", text, hint)


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("+3", int, 3),
        ("-3", float, -3.0),
        (".5", float, 0.5),
        ("1E-3", float, 0.001),
        ("inf", float, float("inf")),
        ("1, 2,", tuple[int, ...], (1, 2)),
    ],
)
def test_numbers_are_read(text: str, hint: object, value: object) -> None:
    assert from_text("number", text, hint) == value
