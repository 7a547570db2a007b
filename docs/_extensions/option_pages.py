"""Sphinx extension: pages made from the code, so that nothing is declared twice.

In the folder reference, `options.md` has every option of a run and of a batch, from the classes that declare
them, `commands.md` what every command prints with --help, and `api.md` the docstrings of all public names.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sphinx.application import Sphinx

import slotwise
from slotwise.base.extras import MissingPackage
from slotwise.batch import BatchSpec
from slotwise.batch.specification import CASE_NAME
from slotwise.cli.app import COMMANDS
from slotwise.cli.flags import ENERGY, PANELS, Flag, flags_of, run_flags
from slotwise.options import declared
from slotwise.options.option_text import field_help
from slotwise.runs import RunConfig
from slotwise.runs.toml_options import file_options
from slotwise.schedule.costs import Powers

PURPOSES = Path(__file__).parents[1] / "python.md"  # lists the public names by purpose
WORDS = {int: "whole number", float: "number", str: "text", bool: "yes or no", Path: "file", dict: "table"}
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
    """Return the page of all options of a run, and of the keys that a batch file has beside them."""
    yield "# Options of a run"
    yield ""
    yield "Flags of `slotwise train` and other commands, keys of TOML files (with dashes or underscores),"
    yield "fields of `RunConfig` (with underscores). Options without `--` have no flag: they are for files"
    yield "and Python only."
    rows = [*run_flags(), *file_only()]
    for panel in dict.fromkeys(flag.panel.name for flag in rows):
        yield from _table(panel, "option", (_row(flag) for flag in rows if flag.panel.name == panel))
    yield from batch_keys()


def file_only() -> Iterator[Flag]:
    """Return the options that have no flag, each with the panel that its flag would be in."""
    wanted = set(file_options()) - {flag.name for flag in run_flags()}
    for option in declared(RunConfig).values():
        if option.name in wanted:
            yield Flag(option.name, option.hint, option.help, PANELS[option.part])


def batch_keys() -> Iterator[str]:
    """Return the section of the keys that only a batch file has."""
    texts = field_help(BatchSpec.of, "Args")
    parameters = inspect.signature(BatchSpec.of).parameters
    yield from (
        "",
        "## Batch files",
        "",
        "A [batch file](../sweep.md#the-file) has options of a run, and these keys.",
    )
    rows = [
        f"| `seeds` | list of whole numbers | `{list(parameters['seeds'].default)}` | {texts['seeds']} |",
        f"| `skip-impossible` | yes or no | `false` | {texts['skip_impossible']} |",
        "| `[[case]]` | table with a `name` and options | | A case; its options override those at the top. |",
        f"| `name` | text: {CASE_NAME} | | Name of a case, in folder names, tables and legends. |",
        f"| `[powers]` | table | | {texts['powers']} |",
    ]
    yield from _table("", "key", rows)
    powers = flags_of(Powers, ENERGY)
    yield from _table("", "key of `[powers]`", (_row(flag, prefix="") for flag in powers))


def _table(title: str, first: str, rows: Iterable[str]) -> Iterator[str]:
    if title:
        yield from ("", f"## {title}")
    yield from ("", f"| {first} | values | default | meaning |", "|---|---|---|---|", *rows)


def _row(flag: Flag, prefix: str = "--") -> str:
    option = RunConfig.declared_options().get(flag.name)
    shown = prefix if option is None or option.has_flag else ""
    default = "" if flag.default in (None, ()) else f"`{_value(flag.default)}`"
    text = re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", flag.help.replace("|", "\\|"))
    return f"| `{shown}{flag.name.replace('_', '-')}` | {kind(flag.hint)} | {default} | {text} |"


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
            with suppress(MissingPackage):  # most names of sw.flower
                yield from _entry(name)
        yield "```"


def name_groups(page: str) -> dict[str, list[str]]:
    """Return the public names that the tables of a page list, each once, by group.

    The rows of the table of functions are one group; every other row is a group by itself. Names of a package
    have its name before them, as in rules.Krum.
    """
    groups: dict[str, list[str]] = {}
    for first, rest in re.findall(r"^\| (.*?) \| (.*) \|$", page, re.MULTILINE):
        package = re.fullmatch(r"`sw\.(\w+)`", first)
        is_function = not package and first.startswith("`sw.")
        title = "Functions" if is_function else first[:1].upper() + first[1:]
        names = re.findall(r"`(?:sw\.)?(\w+)", first if is_function else rest)
        prefix = f"{package[1]}." if package else ""
        known = getattr(slotwise, package[1]) if package else slotwise
        seen = {name for group in groups.values() for name in group}
        new = [name for name in dict.fromkeys(names) if name in dir(known) and prefix + name not in seen]
        if new:
            groups.setdefault(title, []).extend(prefix + name for name in new)
    return groups


def _entry(name: str) -> Iterator[str]:
    value: Any = attrgetter(name)(slotwise)
    if inspect.isclass(value) and not get_args(value):
        yield from (f".. autoclass:: slotwise.{name}", "   :members:", "   :undoc-members:", "")
    elif inspect.isroutine(value):
        yield from (f".. autofunction:: slotwise.{name}", "")
    else:
        yield from (f".. py:data:: slotwise.{name}", f"   :value: {value}".replace("~", ""), "")


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def kind(hint: Any) -> str:
    """Return the values that an option may have, in words."""
    return " or ".join(dict.fromkeys(_words(hint)))


def _words(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Literal:
        yield ", ".join(f"`{value}`" for value in get_args(hint))
    elif get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            if part is not NoneType:
                yield from _words(part)
    elif get_origin(hint) is tuple:
        (word,) = _words(get_args(hint)[0])
        yield f"list of {word.split()[0]}s" if word.startswith("list") else f"list of {word}s"
    else:
        yield WORDS[hint]
