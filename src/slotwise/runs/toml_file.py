"""Options of a run from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotwise.errors import InputError, UserError
from slotwise.runs.config import refuse_unknown


def read_toml(path: Path) -> dict[str, Any]:
    """The options a TOML file holds, by the names of the flags (dashes or underscores)."""
    return known_options(path, load_toml(path, "config"))


def known_options(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table's options; one that no run has is refused with the name of the file."""
    options = toml_options(path, table)
    try:
        refuse_unknown(options)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return options


def load_toml(path: Path, option: str | None = None) -> dict[str, Any]:
    """The document in a TOML file; ``option`` is what the command line calls it, if it has a name there."""

    def refused(allowed: str) -> UserError:
        if option is None:
            return UserError(f"{path}: must be {allowed}")
        return InputError(option, path, allowed)

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise refused(f"a readable TOML file ({error})") from None
    except ValueError as error:  # TOML's own errors, and Python's for a number of thousands of digits
        raise refused(f"valid TOML ({error})") from None


def toml_options(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table's options by the names of parameters; a fleet file is looked for beside the TOML file."""
    options: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in options:
            raise UserError(f"{path}: {key}: is there twice, with dashes and with underscores")
        options[name] = value
    if isinstance(options.get("fleet_file"), str):
        options["fleet_file"] = str(path.parent / options["fleet_file"])
    return options
