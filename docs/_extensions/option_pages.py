"""Sphinx extension: pages made from the code, so that nothing is declared twice.

In the folder reference, `options.md` has every option of a run and of a batch, from the classes that declare
them, and `commands.md` what every command prints with --help.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sphinx.application import Sphinx

from slotwise.batch import BatchSpec
from slotwise.batch.specification import CASE_NAME
from slotwise.cli.app import COMMANDS
from slotwise.cli.flags import ENERGY, PANELS, Flag, flags_of, run_flags
from slotwise.options import declared
from slotwise.options.option_text import field_help
from slotwise.runs import RunConfig
from slotwise.runs.toml_options import file_options
from slotwise.schedule.costs import Powers

WORDS = {int: "whole number", float: "number", str: "text", bool: "yes or no", Path: "file", dict: "table"}
PROGRAM = "from slotwise.cli import main; main()"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads the folder."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write the pages of options and commands."""
    write_page(app, "options", options())
    write_page(app, "commands", commands())


def write_page(app: Sphinx, name: str, lines: Iterable[str]) -> None:
    """Write a page of the folder reference, if it has changed."""
    path, text = Path(app.srcdir) / "reference" / f"{name}.md", "\n".join(lines) + "\n"
    path.parent.mkdir(exist_ok=True)
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
