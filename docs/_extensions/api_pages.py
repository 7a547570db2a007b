"""Sphinx extension: the docstrings of all public names, one page for each subject.

The page python.md lists the public names. Which subject a name belongs to follows from the package that
defines it. In the folder reference, `api.md` is the list of subjects, and `api-schedule.md` one of its pages.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from docutils import nodes
from option_pages import write_page
from sphinx.application import Sphinx
from sphinx.util.docstrings import prepare_docstring

import slotwise
from slotwise.base.extras import MissingPackage
from slotwise.options.option_text import field_help

LIST = Path(__file__).parents[1] / "python.md"
STUB = Path(slotwise.__file__).with_suffix(".pyi")


@dataclass(frozen=True)
class Subject:
    """One page of the reference: the names that some packages define."""

    title: str
    packages: tuple[str, ...]
    pages: tuple[str, ...]  # that explain them


SUBJECTS = {
    "schedule": Subject(
        "Schedules and devices",
        ("scenario", "setting", "schedule", "fleet"),
        ("channel", "unequal-devices", "own-policy"),
    ),
    "learning": Subject(
        "Learning", ("learning", "torch", "flower"), ("own-task", "own-model", "scale", "flower")
    ),
    "gym": Subject("Environments for agents that learn", ("gym",), ("gym", "episode")),
    "rules": Subject("Aggregation rules", ("rules", "aggregation"), ("aggregation", "own-aggregation")),
    "data": Subject("Data", ("data",), ("data", "own-partition")),
    "radio": Subject("Radio", ("radio",), ("radio", "own-link")),
    "runs": Subject(
        "Runs and batches",
        ("runs", "batch", "recommendation", "paper", "tracking", "base"),
        ("guide", "sweep", "recommend", "tracking"),
    ),
    "live": Subject("Live runs", ("live",), ("live", "deployment")),
    "plots": Subject("Plots and pages", ("report", "web"), ("guide", "explorer")),
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads the folder."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", add_inherited_fields, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", keep_text_of_properties, priority=600)
    app.connect("doctree-resolved", improve_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write the list of subjects and a page for each."""
    names = by_subject(LIST.read_text(encoding="utf-8"))
    write_page(app, "api", overview(names))
    for key, subject in SUBJECTS.items():
        write_page(app, f"api-{key}", subject_page(subject, names[key]))


def overview(names: dict[str, list[str]]) -> Iterator[str]:
    """Return the list of subjects with their names."""
    yield from ("# Docstrings", "", "All public names of `import slotwise as sw`, by subject; ")
    yield "the [Python API](../python.md) lists them by purpose, with the commands that do the same."
    yield from ("", "| subject | names |", "|---|---|")
    for key, subject in SUBJECTS.items():
        shown = ", ".join(f"{{py:obj}}`{name} <slotwise.{name}>`" for name in names[key])
        yield f"| [{subject.title}](api-{key}.md) | {shown} |"
    yield from ("", "```{toctree}", ":hidden:", "", *(f"api-{key}" for key in SUBJECTS), "```")


def subject_page(subject: Subject, names: list[str]) -> Iterator[str]:
    """Return one page: first the names at the top, then those of each package."""
    explained = ", ".join(f"[{page}.md](../{page}.md)" for page in subject.pages)
    yield from (f"# {subject.title}", "", f"Explained in {explained}.")
    packages = dict.fromkeys(name.rpartition(".")[0] for name in names)
    for package in packages:
        place = f"slotwise.{package}" if package else "slotwise"
        yield from ("", f"## {place}", "", "```{eval-rst}")
        for name in names:
            if name.rpartition(".")[0] == package:
                with suppress(MissingPackage):  # names that need Flower, where it is not installed
                    yield from entry(name)
        yield "```"


def by_subject(page: str) -> dict[str, list[str]]:
    """Return the names that a page lists, by subject; those at the top of slotwise are first."""
    lines = re.findall(r"^from slotwise\.?(\w*)\S* import (\w+)", STUB.read_text("utf-8"), re.MULTILINE)
    homes = {name: package for package, name in lines}
    groups: dict[str, list[str]] = {key: [] for key in SUBJECTS}
    for name in sorted(listed_names(page), key=lambda name: "." in name):
        package = name.partition(".")[0] if "." in name else homes[name]
        (key,) = [key for key, subject in SUBJECTS.items() if package in subject.packages]
        groups[key].append(name)
    return groups


def listed_names(page: str) -> list[str]:
    """Return the public names that the tables of a page list, each once.

    Names of a package, in the row that begins with it, have its name before them, as in rules.Krum.
    """
    names: dict[str, None] = {}
    for first, rest in re.findall(r"^\| (.*?) \| (.*) \|$", page, re.MULTILINE):
        package = re.fullmatch(r"`sw\.(\w+)`", first)
        is_function = not package and first.startswith("`sw.")
        home = getattr(slotwise, package[1]) if package else slotwise
        for name in re.findall(r"`(?:sw\.)?(\w+)", first if is_function else rest):
            if name in dir(home):
                names[f"{package[1]}.{name}" if package else name] = None
    return list(names)


def entry(name: str) -> Iterator[str]:
    """Return what makes Sphinx show the docstring of a name."""
    value: Any = attrgetter(name)(slotwise)
    if inspect.isclass(value) and not get_args(value):
        shown_above = ", ".join((*fields_with_help(value), *getattr(value, "_fields", ())))
        yield from (
            f".. autoclass:: slotwise.{name}",
            "   :members:",
            f"   :exclude-members: {shown_above}",
            "",
        )
    elif inspect.isroutine(value):
        yield from (f".. autofunction:: slotwise.{name}", "")
    else:
        yield from (f".. py:data:: slotwise.{name}", f"   :value: {value}".replace("~", ""), "")


def fields_with_help(owner: type) -> dict[str, str]:
    """Return the descriptions of a dataclass's fields, also of those that it inherits."""
    known = {name: text for base in reversed(owner.__mro__) for name, text in field_help(base).items()}
    names = [field.name for field in fields(owner)] if is_dataclass(owner) else []
    return {name: known[name] for name in names if name in known}


def add_inherited_fields(
    _app: Sphinx, what: str, _name: str, owner: Any, _options: object, lines: list[str]
) -> None:
    """Add the fields that a dataclass inherits to the section of its docstring that describes fields."""
    own = field_help(owner) if what == "class" else {}
    wanted = fields_with_help(owner) if what == "class" else {}
    inherited = [f"    {name}: {text}" for name, text in wanted.items() if name not in own]
    if not inherited:
        return
    if "Attributes:" not in lines:
        lines += ["", "Attributes:"]
    at = lines.index("Attributes:") + 1
    lines[at:at] = inherited


def keep_text_of_properties(
    _app: Sphinx, what: str, _name: str, value: Any, _options: object, lines: list[str]
) -> None:
    """Undo what napoleon makes of a colon: it takes the words before it for a type."""
    if what == "property":
        lines[:] = prepare_docstring(inspect.getdoc(value) or "")


def improve_words(_app: Sphinx, doctree: nodes.document, _name: str) -> None:
    """Call fields fields, and write dashes as dashes."""
    words = {"Variables": "Fields", " -- ": " – "}
    for text in list(doctree.findall(nodes.Text)):
        if text.astext() in words and text.parent is not None:
            text.parent.replace(text, nodes.Text(words[text.astext()]))
