"""Packages that import a name when it is first used, so that importing the package is fast."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that lists its names in a stub.

    The stub is the file ``__init__.pyi`` beside ``file``. It has a line ``from module import name as name``
    for each name, as type checkers and editors read it, so the names are listed once.
    """
    with open(f"{file.rpartition('.')[0]}.pyi", encoding="utf-8") as stub:  # noqa: PTH123  (pathlib is slow to import)
        lines = [line.split() for line in stub if line.startswith("from ")]
    homes = {name: module for _, module, _, name, *_ in lines}

    def find(name: str) -> Any:
        """Import a public name from the module that defines it."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with import_module("slotwise.base.extras").importing():
            if homes[name] == package:
                return import_module(f"{package}.{name}")
            value = getattr(import_module(homes[name]), name)
        setattr(import_module(package), name, value)
        return value

    return find, lambda: [*homes], [*homes]
