"""Errors in the user's code are described with the user's file and line."""

import sys

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.base.user_code import check_arguments, load_function


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("import json\n\njson.loads('{')\n", "{name}.py, line 3"),
        ("def broken(:\n    pass\n", "{name}.py, line 1"),
        ("\n\nraise ValueError('no')\n", "{name}.py, line 3"),
    ],
    ids=["in-a-library", "syntax", "here"],
)
def test_a_module_that_cannot_be_imported(content, place, request, tmp_path, monkeypatch) -> None:
    name = f"given_{request.node.callspec.id.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(UserError) as error:
        load_function("task", f"{name}:make", 1)
    message = str(error.value)
    assert message.endswith(f"({place.format(name=name)})")
    assert message.count(", line") == 1


@pytest.mark.parametrize("function", [lambda: None, lambda width, depth: None])
def test_a_function_of_other_arguments_is_refused_with_those_it_must_take(function) -> None:
    with pytest.raises(InputError) as error:
        check_arguments("task", function, 1)
    assert error.value.parameter == "task"
    assert "1 argument (config)" in error.value.allowed
