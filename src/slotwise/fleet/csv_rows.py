"""CSV files of a fleet or of the radio: a header, rows of numbers, errors that name file, row and column.

Rows are counted as an editor counts lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from slotwise.base.errors import UserError, shown
from slotwise.options.checks import LARGEST
from slotwise.options.option_text import read_number

MOST_SHOWN = 40  # characters of a field in a message, enough to find it


class Row(NamedTuple):
    """One row of a CSV file: its number as an editor counts, and its fields by column."""

    number: int
    fields: dict[str, str]


@dataclass(frozen=True)
class CsvTable:
    """A CSV file whose columns are checked; its fields are still text."""

    path: Path
    header_row: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def error(self, row: int, column: str | None, what: str) -> UserError:
        """Return the error for a field, which names file, row and column."""
        place = f"{self.path}, row {row}" + (
            "" if column is None else f", column {shown(column, MOST_SHOWN)}"
        )
        return UserError(f"{place}: {what}")

    def wrong(self, row: Row, column: str, allowed: str) -> UserError:
        """Return the error for a field that is not what is allowed."""
        return self.error(row.number, column, f"{shown(row.fields[column], MOST_SHOWN)}: must be {allowed}")

    def whole(self, row: Row, column: str, smallest: int) -> int:
        """Return a field that must be a whole number of at least ``smallest``."""
        text = row.fields[column]
        # int() alone would accept signs, underscores and digits of other scripts.
        number = int(text) if re.fullmatch("[0-9]{1,10}", text) else -1
        if not smallest <= number <= LARGEST:
            raise self.wrong(row, column, f"a whole number from {smallest} to {LARGEST:,}")
        return number

    def number(self, row: Row, column: str) -> float:
        """Return a field that must be a finite number."""
        text = row.fields[column]
        try:
            number = read_number(text)
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            raise self.wrong(row, column, "a finite number")
        return number


def read_table(path: Path, allowed: Sequence[str], required: Sequence[str] = ()) -> CsvTable:
    """Read a CSV file with some of the ``allowed`` columns and all of the ``required`` ones.

    Raises:
        UserError: the file cannot be read, is no CSV file, or has other columns.
    """
    filled = _filled_lines(path)
    if not filled:
        raise UserError(f"{path}: empty: must have a header row and rows of numbers")
    header_row, columns = filled[0]
    table = CsvTable(path, header_row, tuple(columns), ())
    for name in columns:
        if name not in allowed:
            raise table.error(header_row, name, f"unknown: allowed are {', '.join(allowed)}")
        if columns.count(name) > 1:
            raise table.error(header_row, name, "occurs twice")
    for name in required:
        if name not in columns:
            raise table.error(header_row, name, "missing")
    rows = []
    for number, fields in filled[1:]:
        if len(fields) != len(columns):
            raise table.error(number, None, f"{len(fields)} fields: must be {len(columns)}, one a column")
        rows.append(Row(number, dict(zip(columns, fields, strict=True))))
    return CsvTable(path, header_row, tuple(columns), tuple(rows))


def _filled_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return number and fields of every line that is not blank."""
    try:
        # Spreadsheets begin a file with a byte order mark, which would become part of the first column.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            # Spaces within a field become one, so that an error that quotes it is one line.
            lines = [(reader.line_num, [" ".join(field.split()) for field in fields]) for fields in reader]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, csv.Error) as error:  # ValueError: no UTF-8, or a name that no file can have
        raise UserError(f"{path}: not a CSV file: {error}") from None
    return [line for line in lines if any(line[1])]
