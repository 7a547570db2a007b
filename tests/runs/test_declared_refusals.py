"""Which values an option accepts is as recorded: of several types, and around both ends of its range.

All other values that are tried are refused by the name of the option. This file, run as a program, writes
declared_refusals.json from the code as it is: only when an option is meant to accept other values.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest
from option_contexts import CONTEXTS, FOUND, ROOT, options_in, write_files

from slotwise.base.errors import UserError
from slotwise.options import Range
from slotwise.options.declarations import mark_of
from slotwise.runs import RunConfig

FILE = Path(__file__).with_name("declared_refusals.json")
VALUES: tuple[Any, ...] = (-1, 0, 1.5, 3, True, "nonsense", "1", [], [0], [1.5], {"a": 1}, None, 10**400)
VALUES += (2.0, float("nan"), float("inf"))
OPTIONS = {
    name: option for name, option in RunConfig.declared_options().items() if CONTEXTS[name][1] is not FOUND
}


def allowed(name: str) -> Range:
    return mark_of(OPTIONS[name].marks, Range) or Range()


def values(name: str) -> list[Any]:
    """Return values of many types, and numbers at, below and above every end of the declared range."""
    kinds = {OPTIONS[name].hint, *get_args(OPTIONS[name].hint)}
    ends = [end for end in vars(allowed(name)).values() if end is not None]
    steps = [1e-6 * (abs(end) or 1) if float in kinds else 1 for end in ends]
    around = [end + sign * step for end, step in zip(ends, steps, strict=True) for sign in (-1, 0, 1)]
    return [*VALUES, *around]


def outcome(name: str, value: Any) -> str:
    """Return what becomes of a value in the context of its option: ok, or the error and its parameter."""
    try:
        RunConfig.from_options({**options_in(CONTEXTS[name][0]), name: value})
    except UserError as error:
        return f"{type(error).__name__} {getattr(error, 'parameter', '')}".strip()
    return "ok"


def outcomes(name: str) -> dict[str, str]:
    """Return the outcomes of all values but those that are simply refused."""
    found = {f"{value!r:.40}": outcome(name, value) for value in values(name)}
    return {value: said for value, said in found.items() if said != f"InputError {name}"}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_accepts_what_was_recorded_and_refuses_all_else_by_its_name(name: str) -> None:
    found = outcomes(name)
    assert found == json.loads(FILE.read_text()).get(name, found)
    for value in values(name):
        if type(value) in (int, float) and not allowed(name).allows(value):
            assert found.get(f"{value!r:.40}") != "ok"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.chdir(tempfile.mkdtemp())
    write_files(Path.cwd())
    lines = (f"{json.dumps(name)}: {json.dumps(outcomes(name))}" for name in OPTIONS)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
