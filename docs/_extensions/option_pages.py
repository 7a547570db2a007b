"""Sphinx extension: pages made from the code, so that nothing is declared twice.

In the folder reference, `options.md` has every option of a run, from the dataclasses that declare them,
`commands.md` what every command prints with --help, and `api.md` the docstrings of all public names.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from sphinx.application import Sphinx

import slotwise
from slotwise.cli.app import COMMANDS
from slotwise.cli.flags import Flag, run_flags

PURPOSES = Path(__file__).parents[1] / "python.md"  # lists the public names by purpose
PROGRAM = "from slotwise.cli import main; main()"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads the folder."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write each page that has changed."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    for name, lines in (("options", options()), ("commands", commands()), ("api", api())):
        path, text = folder / f"{name}.md", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def options() -> Iterator[str]:
    """Return the page of all options of a run."""
    yield "# Options of a run"
    yield ""
    yield "Flags of `slotwise train` and other commands, keys of TOML files, fields of `RunConfig`."
    flags = run_flags()
    panel = ""
    panels = list(dict.fromkeys(flag.panel.name for flag in flags))
    for flag in sorted(flags, key=lambda flag: panels.index(flag.panel.name)):
        if flag.panel.name != panel:
            panel = flag.panel.name
            yield from ("", f"## {panel}", "", "| option | values | default | meaning |", "|---|---|---|---|")
        default = "" if flag.default in (None, ()) else f"`{_value(flag.default)}`"
        text = flag.help.replace("|", "\\|")
        yield f"| `--{flag.name.replace('_', '-')}` | {_kind(flag)} | {default} | {text} |"


def commands() -> Iterator[str]:
    """Return the page of all commands."""
    yield "# Commands"
    for name in COMMANDS:
        if name == "compare":  # only says what replaces it
            continue
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, name, "--help"],
            env={**os.environ, "COLUMNS": "90", "NO_COLOR": "1", "TERM": "dumb"},
            capture_output=True,
            text=True,
            check=True,
        )
        yield from ("", f"## slotwise {name}", "", "```text", done.stdout.strip("\n"), "```")


def api() -> Iterator[str]:
    """Return the page of all public names, in the groups of docs/python.md."""
    yield "# Docstrings of all public names"
    yield ""
    yield "Everything that `import slotwise as sw` gives, in the order of the [list](../python.md)."
    for title, names in name_groups(PURPOSES.read_text(encoding="utf-8")).items():
        yield from ("", f"## {title}", "", "```{eval-rst}")
        for name in names:
            yield from _entry(name)
        yield "```"


def name_groups(page: str) -> dict[str, list[str]]:
    """Return the public names that the tables of a page list, each once, by group.

    The rows of the table of functions are one group; a row of the table of values is a group by itself.
    """
    groups: dict[str, list[str]] = {}
    seen: set[str] = set()
    for first, rest in re.findall(r"^\| (.*?) \| (.*) \|$", page, re.MULTILINE):
        is_function = first.startswith("`sw.")
        title = "Functions" if is_function else first[:1].upper() + first[1:]
        for name in re.findall(r"`(?:sw\.)?(\w+)", first if is_function else rest):
            if name in slotwise.__all__ and name not in seen:
                seen.add(name)
                groups.setdefault(title, []).append(name)
    return groups


def _entry(name: str) -> Iterator[str]:
    value: Any = getattr(slotwise, name)
    if inspect.isclass(value) and not get_args(value):
        yield from (f".. autoclass:: slotwise.{name}", "   :members:", "   :undoc-members:", "")
    elif inspect.isroutine(value):
        yield from (f".. autofunction:: slotwise.{name}", "")
    else:
        yield from (f".. py:data:: slotwise.{name}", f"   :value: {value}".replace("~", ""), "")


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _kind(flag: Flag) -> str:
    """Return the values that an option may have, in words."""
    return " or ".join(dict.fromkeys(_words(flag.hint)))


def _words(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Literal:
        yield ", ".join(f"`{value}`" for value in get_args(hint))
    elif get_origin(hint) is UnionType or str(hint).startswith("typing.Union"):
        for part in get_args(hint):
            if part is not type(None):
                yield from _words(part)
    elif get_origin(hint) is tuple:
        yield "list"
    else:
        names = {"int": "whole number", "float": "number", "str": "text", "bool": "yes or no", "Path": "file"}
        yield names.get(getattr(hint, "__name__", ""), re.sub(r"^.*\.", "", str(hint)))
