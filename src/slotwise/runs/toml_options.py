"""Options in TOML files: reading them, and messages that name file and key as they are written there."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError, refuse_unknown_name, shown
from slotwise.base.files import load_toml
from slotwise.options import declared
from slotwise.runs.config import RENAMED, RunConfig

# Flags of commands that a file cannot have: they say where results go and how they are computed, not what.
FLAGS_ONLY = (
    *(
        "out",
        "resume",
        "overwrite",
        "config",
        "workers",
        "processes",
        "ray",
        "gpus_per_worker",
        "checkpoint_every",
        "track",
        "track_project",
    ),
    "quiet",
)

# What only a file of slotwise sweep has, beside options of a run.
SWEEP_ONLY = ("case", "seeds", "skip_impossible")


def read_toml(path: Path, table: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read the options in a TOML file, or in ``table`` of it; names may have dashes or underscores."""
    return toml_options(path, load_toml(path, "config") if table is None else table)


def file_options() -> tuple[str, ...]:
    """Return the options of a run that a file may have: all but those that are found out."""
    return tuple(name for name, option in RunConfig.declared_options().items() if not option.is_found)


def tables() -> tuple[str, ...]:
    """Return the options that are tables: the parameters of functions of the user's."""
    return tuple(name for name, option in declared(RunConfig).items() if option.hint is dict)


def toml_options(path: Path, table: Mapping[str, Any], others: Sequence[str] = ()) -> dict[str, Any]:
    """Return a table with underscores in its names; files and folders are relative to the TOML file.

    A UserError names a key that is neither an option nor one of ``others``, as it is written in the file.
    """
    options: dict[str, Any] = {}
    for key, value in _flattened(path, table).items():
        try:
            _refuse_unknown(key, value, others)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        name = key.replace("-", "_")
        if name in options:
            raise UserError(f"{path}: {key} is given twice, with dashes and with underscores")
        is_table = isinstance(value, dict) and name in tables()
        options[name] = {k.replace("-", "_"): one for k, one in value.items()} if is_table else value
    for name, option in RunConfig.declared_options().items():
        if option.names_file and name in options:
            options[name] = _relative_to(path.parent, options[name])
    return options


def _flattened(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table in which ``[radio]`` is written out: its ``bandwidth-hz`` is ``radio-bandwidth-hz``."""
    radio = table.get("radio")
    if radio is None:
        return dict(table)
    if not isinstance(radio, dict):
        raise UserError(f"{path}: radio must be a table, [radio]")
    flat = {key: value for key, value in table.items() if key != "radio"}
    for key, value in radio.items():
        name = f"radio{'_' if '_' in key else '-'}{key}"
        if name in flat:
            raise UserError(f"{path}: {name} is given twice, at the top and in [radio]")
        flat[name] = value
    return flat


def _relative_to(folder: Path, value: Any) -> Any:
    """Return the path of a file named relative to ``folder``, or of each in a list."""
    if isinstance(value, list):
        return [_relative_to(folder, item) for item in value]
    return str(folder / value) if isinstance(value, str) else value


def _refuse_unknown(key: str, value: Any, others: Sequence[str]) -> None:
    name = key.replace("-", "_")
    if name in RENAMED:
        raise UserError(f"unknown option {key}: it is now {RENAMED[name].replace('_', '-')}")
    if name in FLAGS_ONLY and name not in others:
        raise UserError(
            f"unknown option {key}: a file cannot have it; give the flag --{name.replace('_', '-')}"
        )
    if name in SWEEP_ONLY and name not in others:
        raise UserError(f"unknown option {key}: it belongs at the top of a file of slotwise sweep")
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, dict) for item in items) and name not in (*others, *tables()):
        close = difflib.get_close_matches(key, others, 1)
        hint = f"did you mean {close[0]}?" if close else "options are written at the top, without a table"
        raise UserError(f"unknown table {shown(key)}: {hint}")
    refuse_unknown_name("option", key, (*file_options(), *others), dashes=True)


@contextmanager
def blaming_file(path: Path | None, flags: Collection[str] = ()) -> Iterator[None]:
    """Add the name of a TOML file to an InputError about an option that the file sets, and no flag.

    A default that does not fit what was set is blamed on the file if there are no flags of
    a run. Parameters are written as they are in the file.
    """
    try:
        yield
    except InputError as error:
        if path is None or error.parameter in flags:
            raise
        is_default = not flags and error.parameter in file_options()
        if error.parameter not in _set_in(path) and not is_default:
            raise
        raise UserError(f"{path}: {in_words_of(path, error)}") from None


def _set_in(path: Path) -> dict[str, str]:
    """Return the options in a TOML file, each as it is written there."""
    document = load_toml(path)
    tables = [document]
    for value in document.values():
        tables += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    written = {key.replace("-", "_"): key for table in tables for key in table}
    if isinstance(radio := document.get("radio"), dict):
        written |= {f"radio_{key.replace('-', '_')}": f"radio-{key}" for key in radio}
    return written


def in_words_of(path: Path, error: UserError) -> str:
    """Return the message of an error with parameters written as in a TOML file."""
    if not isinstance(error, InputError):
        return str(error)
    written = _set_in(path)

    def name(parameter: str) -> str:
        return written.get(parameter, parameter.replace("_", "-"))

    return error.described(name, " = ", RunConfig.known_options())
