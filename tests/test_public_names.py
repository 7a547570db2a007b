"""The public names, and what importing them costs."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import slotwise

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", slotwise.__all__)
def test_every_public_name_can_be_imported_and_has_a_docstring(name: str) -> None:
    value = getattr(slotwise, name)
    if isinstance(value, type) or inspect.isfunction(value):  # not an alias of a type
        assert value.__doc__


def test_static_and_lazy_imports_name_the_same() -> None:
    tree = ast.parse(Path(slotwise.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slotwise.")
        for alias in node.names
    }
    assert imported == set(slotwise.__all__) == set(dir(slotwise))


def test_the_page_lists_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    option_pages = import_module("option_pages")
    groups = option_pages.name_groups((ROOT / "docs/python.md").read_text(encoding="utf-8"))
    assert sorted(name for names in groups.values() for name in names) == sorted(slotwise.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = slotwise.no_such_name


def test_no_public_function_hides_a_module() -> None:
    package = Path(slotwise.__file__).parent
    modules = {path.stem for path in package.iterdir()}
    assert not modules & set(slotwise.__all__)
