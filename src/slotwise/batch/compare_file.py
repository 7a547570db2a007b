"""Temporary: former names of `slotwise.batch.specification`, until recommendation uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slotwise.batch.specification import checked_seeds, read_powers
from slotwise.costs import Powers
from slotwise.errors import UserError

__all__ = ["checked_seeds", "powers_of"]


def powers_of(path: Path, table: Any) -> Powers | None:
    """Return the powers in a TOML table of a file."""
    try:
        return read_powers(table)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
