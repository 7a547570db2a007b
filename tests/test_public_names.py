"""The public names, and what importing them costs."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import slotwise
from slotwise.options import UserFunction
from slotwise.options.declarations import declarations

ROOT = Path(__file__).parents[1]


PACKAGES = [name for name in slotwise.__all__ if inspect.ismodule(getattr(slotwise, name))]
NAMES = [name for name in slotwise.__all__ if name not in PACKAGES]
LISTED = [f"{package}.{name}" for package in PACKAGES for name in dir(getattr(slotwise, package))]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported_and_has_a_docstring(name: str) -> None:
    value = getattr(slotwise, name)
    if isinstance(value, type) or inspect.isfunction(value):  # not an alias of a type
        assert value.__doc__


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "flower"])
def test_every_name_of_a_package_can_be_imported(package: str) -> None:
    home = getattr(slotwise, package)
    assert all(hasattr(home, name) for name in dir(home))


def test_every_line_of_a_stub_names_one_import() -> None:
    for stub in Path(slotwise.__file__).parent.rglob("*.pyi"):
        for line in stub.read_text(encoding="utf-8").splitlines():
            start, _, module, kind, name, as_, again = ["", *line.split()]
            assert (start, kind, as_, again) == ("", "import", "as", name), f"{stub}: {line} of {module}"


def test_the_page_lists_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    api_pages = import_module("api_pages")
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    listed = api_pages.listed_names(page)
    assert sorted(name for names in api_pages.by_subject(page).values() for name in names) == sorted(listed)
    assert sorted(name for name in listed if "." not in name) == sorted(NAMES)
    assert set(PACKAGES) == {name.partition(".")[0] for name in listed if "." in name}


def parts_of(owner: Any) -> Iterator[Any]:
    """Yield the classes and functions that a value of a class can be made of, at any depth."""
    for field in declarations(owner):
        choices = [*field.choice.known.values(), *field.choice.unnamed] if field.choice else []
        either = field.either.classes if field.either else [field.part] if field.part else []
        for part in (*choices, *either):
            kind = part if isinstance(part, type) or inspect.isroutine(part) else type(part)
            if kind is str:  # one of two ways to choose participants, which are no values
                continue
            yield kind
            yield from parts_of(kind)


def test_every_part_of_a_run_is_public() -> None:
    public = [attrgetter(name)(slotwise) for name in LISTED if not name.startswith("flower.")]
    public += [getattr(slotwise, name) for name in NAMES]
    public += [slotwise.flower.FlowerApp, UserFunction]  # the last is written module:function
    assert not [part for part in parts_of(slotwise.RunConfig) if part not in public]


def functions_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a function, or the public methods of a class."""
    if inspect.isfunction(value):
        yield value.__qualname__, value
    elif isinstance(value, type):
        for name, member in vars(value).items():
            method = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(method):
                yield method.__qualname__, method


def test_every_public_function_takes_paths_as_text_too() -> None:
    names = [*NAMES, *(name for name in LISTED if not name.startswith("flower."))]
    found = dict(pair for name in names for pair in functions_of(attrgetter(name)(slotwise)))
    assert len(found) > 100
    arguments = ((f, name, str(kind)) for f in found for name, kind in found[f].__annotations__.items())
    assert not [one for one in arguments if one[1] != "return" and "Path" in one[2] and "str" not in one[2]]


MOVED = [(place, name) for place, names in slotwise._MOVED.items() for name in names.split()]


@pytest.mark.parametrize(("place", "name"), MOVED)
def test_a_name_that_moved_is_found_with_a_warning_that_says_where(place: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"sw.{name} is now sw.{place}.{name}"):
        assert getattr(slotwise, name) is getattr(getattr(slotwise, place), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = slotwise.no_such_name


def test_no_public_function_hides_a_module() -> None:
    package = Path(slotwise.__file__).parent
    modules = {path.stem for path in package.iterdir()}
    assert not modules & set(NAMES)
