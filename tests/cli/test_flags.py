"""Values of flags that are refused with the reason."""

from typing import get_args

import pytest
from cyclopts import Token

from slotwise.base.errors import InputError
from slotwise.cli.app import COMMANDS, build_app


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_reads_numbers_that_only_python_writes(name) -> None:
    app = build_app(name)[name]
    for argument in app.assemble_argument_collection() if app.default_command else ():
        kinds = {argument.hint, *get_args(argument.hint)}
        if kinds & {int, float} and str not in kinds:
            for text in ("1_0", "\u0661\u0660"):
                with pytest.raises(InputError):
                    argument.parameter.converter(argument.hint, [Token(keyword=argument.name, value=text)])


def test_an_argument_that_is_not_expected_is_shown_on_one_short_line(slotwise) -> None:
    for argument in ("x\ny", "n" * 5000, "--bo\ngus"):
        code, _, errors = slotwise("plan", argument)
        assert (code, errors.count("\n")) == (2, 1)
        assert len(errors) < 500
