"""Messages of errors, with parameters as Python, the command line or a file writes them."""

import pytest

from slotwise.base.errors import (
    ConflictError,
    InputError,
    MissingError,
    UserError,
    nearest_names,
    refuse_unknown_name,
)

KNOWN = ("radio_radius_m", "backend", "mean_present")


def flag(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


@pytest.mark.parametrize(
    ("error", "python", "shell"),
    [
        (
            InputError("radio_nearest_m", 10, "below radio_radius_m, 5"),
            "radio_nearest_m = 10: must be below radio_radius_m, 5",
            "--radio-nearest-m 10: must be below --radio-radius-m, 5",
        ),
        (
            InputError("network", "resnet8-gn", "used with backend=torch"),
            "network = resnet8-gn: must be used with backend=torch",
            "--network resnet8-gn: must be used with --backend torch",
        ),
        (
            MissingError("mean_away", "given together with mean_present"),
            "mean_away is missing; it must be given together with mean_present",
            "--mean-away is missing; it must be given together with --mean-present",
        ),
        (
            InputError("task", "a:b", "importable: a has no my_own_name, nor a backend"),
            "task = a:b: must be importable: a has no my_own_name, nor a backend",
            "--task a:b: must be importable: a has no my_own_name, nor a backend",
        ),
        (
            ConflictError("out", "mean_present"),
            "out cannot be combined with mean_present",
            "--out cannot be combined with --mean-present",
        ),
    ],
)
def test_parameters_are_written_as_the_reader_does(error: InputError, python: str, shell: str) -> None:
    assert str(error) == python
    assert error.described(flag, known=KNOWN) == shell


UNFIT = ["a\nb", "\x1b[31mred", "a\u2028b", "9" * 5000, 10**5000, "", "  ", (1,) * 9999]


@pytest.mark.parametrize("value", UNFIT, ids=range(len(UNFIT)))
def test_any_value_is_shown_on_one_short_line(value: object) -> None:
    message = str(InputError("devices", value, "a whole number"))
    assert message.isprintable()
    assert len(message) < 300
    assert not message.startswith(("devices = :", "devices =  "))


@pytest.mark.parametrize("value", [3, 2.5, "first-ready", "two words", "/tmp/some folder/ü", None, (1, 2)])
def test_ordinary_values_are_shown_as_they_are(value: object) -> None:
    assert str(InputError("x", value, "better")) == f"x = {value}: must be better"


def test_unknown_names_are_shown_on_one_short_line() -> None:
    with pytest.raises(UserError) as caught:
        refuse_unknown_name("option", "n\n" * 999, ["devices"])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("group_sise", "did you mean group_size?"),
        ("rate", "did you mean rate_"),
        ("rate-", "did you mean rate-"),
        ("xyz", "unknown option xyz: no known name is similar"),
        ("s", "unknown option s: no known name is similar"),
        ("size", "did you mean group_size?"),
        ("gs", "did you mean group_size?"),
    ],
)
def test_an_unknown_name_is_answered_with_at_most_three_of_the_nearest(name: str, answer: str) -> None:
    known = ["group_size", "rate_a", "rate_b", "rate_c", "rate_d", "devices", "deadline"]
    with pytest.raises(UserError) as caught:
        refuse_unknown_name("option", name, known)
    assert answer in str(caught.value)
    assert str(caught.value).count(",") < 3


def test_a_name_that_is_like_no_other_is_looked_for_in_their_texts() -> None:
    texts = {"devices": "Number of devices (clients).", "shift": "Client-side shift.", "delay": "Rounds."}
    assert nearest_names("--clients", texts, texts) == ": did you mean devices?"
    assert nearest_names("--side", texts, texts) == ": did you mean shift?"
    assert nearest_names("--ients", texts, texts) == ": no known name is similar"  # only a part of a word
