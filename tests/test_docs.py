"""The examples of the documentation print what it says."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", ["unequal-devices.md"])
def test_the_examples_of_a_page_print_what_it_says(name: str) -> None:
    result = doctest.testfile(str(DOCS / name), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0
