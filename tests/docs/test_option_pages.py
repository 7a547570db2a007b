"""The page of options has all that a file may have, with values in words."""

import re
from importlib import import_module
from types import ModuleType
from typing import Literal, Optional, Union

import pytest
from doc_pages import ROOT

from slotwise.options.checks import option_names
from slotwise.runs.toml_options import file_options
from slotwise.schedule.costs import Powers


@pytest.fixture
def option_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    return import_module("option_pages")


def keys(lines: list[str]) -> list[str]:
    """The options in the first column, with underscores and without the dashes of a flag."""
    return [
        found[1].replace("-", "_") for line in lines if (found := re.match(r"\| `(?:--)?([\w-]+)` \|", line))
    ]


def test_the_page_has_every_option_of_a_file_once(option_pages: ModuleType) -> None:
    before, _, _ = "\n".join(option_pages.options()).partition("## Batch files")
    assert sorted(keys(before.splitlines())) == sorted(file_options())


def test_options_without_a_flag_are_shown_without_dashes(option_pages: ModuleType) -> None:
    rows = [line for line in option_pages.options() if line.startswith("| `absences` |")]
    assert len(rows) == 1
    assert "list of lists" in rows[0]
    assert not any("`--absences`" in line for line in option_pages.options())


def test_the_page_has_every_key_of_a_batch_file(option_pages: ModuleType) -> None:
    lines = list(option_pages.batch_keys())
    assert keys(lines) == ["seeds", "skip_impossible", "name", *option_names(Powers)]
    assert any(line.startswith("| `[[case]]` |") for line in lines)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Optional[Literal["a", "b"]], "`a`, `b`"),  # noqa: UP045
        (Union[int, Literal["auto"]], "whole number or `auto`"),  # noqa: UP007
        (int | None, "whole number"),
        (tuple[float, ...], "list of numbers"),
        (tuple[tuple[int, int], ...], "list of lists"),
    ],
)
def test_types_are_written_in_words(option_pages: ModuleType, hint: object, words: str) -> None:
    assert option_pages.kind(hint) == words
