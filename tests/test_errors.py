"""Messages of errors, with parameters as Python, the command line or a file writes them."""

import pytest

from slotwise.errors import ConflictError, InputError, MissingError

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
