"""Reading a fleet from a CSV file with one row for each device.

The columns are ``device`` (1 to N, in any order) and ``compute_slots``; ``link_slots``, ``leaves`` and
``returns`` are optional. A device without ``leaves`` is always present; one without ``returns`` stays away
for good. Rows are counted as an editor counts lines, the header being row 1.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slotwise.errors import UserError
from slotwise.fleet.fleet import Absence, Fleet
from slotwise.scenario import LARGEST, whole

REQUIRED = ("device", "compute_slots")
COLUMNS = (*REQUIRED, "link_slots", "leaves", "returns")


def read_fleet(path: Path, *, link_slots: int = 1, devices: int | None = None) -> Fleet:
    """Read the fleet that a CSV file describes.

    Args:
        path: the file.
        link_slots: slots of an uplink of every device, if the file has no such column.
        devices: the number of devices there must be; None accepts any.

    Raises:
        UserError: the file is malformed; the message names the file, row and column.
    """
    whole("link_slots", link_slots)
    table = _Table(path, list(_lines(path)))
    rows = table.rows()
    count = table.checked_count(rows, devices)
    return Fleet(
        compute_slots=tuple(rows[n]["compute_slots"] for n in range(1, count + 1)),
        link_slots=tuple(rows[n].get("link_slots", link_slots) for n in range(1, count + 1)),
        absences=tuple(
            Absence(n, row["leaves"], row.get("returns")) for n, row in rows.items() if "leaves" in row
        ),
    )


def _lines(path: Path) -> Iterable[tuple[int, list[str]]]:
    """Yield number and fields of every line that is not blank; spaces within a field become one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for fields in reader:
                if any(field.strip() for field in fields):
                    yield reader.line_num, [" ".join(field.split()) for field in fields]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, csv.Error) as error:  # ValueError: no UTF-8, or a name that no file can have
        raise UserError(f"{path}: not a CSV file: {error}") from None


@dataclass(frozen=True)
class _Table:
    """The lines of one file, checked on the way to numbers."""

    path: Path
    lines: list[tuple[int, list[str]]]

    def rows(self) -> dict[int, dict[str, int]]:
        """Return the numbers of each row by column, without empty fields, by device."""
        columns = self._columns()
        result: dict[int, dict[str, int]] = {}
        for number, fields in self.lines[1:]:
            if len(fields) != len(columns):
                raise self._error(number, None, f"{len(fields)} fields: must be {len(columns)}, one a column")
            row = self._numbers(number, dict(zip(columns, fields, strict=True)))
            if row["device"] in result:
                raise self._error(number, "device", f"{row['device']}: occurs twice")
            result[row["device"]] = row
        return result

    def checked_count(self, rows: Mapping[int, object], devices: int | None) -> int:
        """Return N if there is a row for each of devices 1 to N; ``rows`` are in the order of the file."""
        count = len(rows)
        if not count:
            raise UserError(f"{self.path}: no devices: must have a row for each")
        if devices is not None and count != devices:
            raise UserError(f"{self.path}: {count} devices: must be {devices}")
        for (number, _), device in zip(self.lines[1:], rows, strict=True):
            if device > count:
                missing = next(n for n in range(1, count + 1) if n not in rows)
                allowed = f"must be 1 to {count}, each once, and {missing} is missing"
                raise self._error(number, "device", f"{device}: {allowed}")
        return count

    def _columns(self) -> list[str]:
        if not self.lines:
            raise UserError(f"{self.path}: empty: must have a header row and a row for each device")
        number, columns = self.lines[0]
        for name in columns:
            if name not in COLUMNS:
                allowed = f"allowed are {', '.join(COLUMNS)}"
                raise self._error(number, name, f"unknown: {allowed}")
            if columns.count(name) > 1:
                raise self._error(number, name, "occurs twice")
        for name in (*REQUIRED, *(["leaves"] if "returns" in columns else [])):
            if name not in columns:
                raise self._error(number, name, "missing")
        return columns

    def _numbers(self, number: int, fields: Mapping[str, str]) -> dict[str, int]:
        row = {
            name: self._whole(number, name, text)
            for name, text in fields.items()
            if text or name not in ("leaves", "returns")
        }
        if "returns" in row and "leaves" not in row:
            raise self._error(number, "leaves", "missing: must be given together with returns")
        if "returns" in row and row["returns"] <= row["leaves"]:
            allowed = f"must be after leaves, {row['leaves']}"
            raise self._error(number, "returns", f"{row['returns']}: {allowed}")
        return row

    def _whole(self, number: int, column: str, text: str) -> int:
        smallest = 0 if column == "leaves" else 1
        value = int(text) if re.fullmatch("[0-9]{1,10}", text) else -1
        if not smallest <= value <= LARGEST:
            allowed = f"must be a whole number from {smallest} to {LARGEST:,}"
            raise self._error(number, column, f"{_printable(text) or 'empty'}: {allowed}")
        return value

    def _error(self, row: int, column: str | None, what: str) -> UserError:
        place = f"{self.path}, row {row}" + (f", column {_printable(column)}" if column is not None else "")
        return UserError(f"{place}: {what}")


def _printable(text: str) -> str:
    """Return the printable beginning of a field: enough to find it."""
    return "".join(character if character.isprintable() else "?" for character in text[:40])
