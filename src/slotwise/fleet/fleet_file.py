"""A CSV file of a fleet, with one row for each device.

Its columns are ``device`` (1 to N, in any order) and ``compute_slots``; optional are ``link_slots``,
``leaves``, ``returns`` and ``uplink_loss``. A device without ``leaves`` is always present; one without
``returns`` stays away for good. Rows are counted as an editor counts lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotwise.errors import UserError
from slotwise.fleet.fleet import Absence, Fleet
from slotwise.scenario import LARGEST, whole

COLUMNS = ("device", "compute_slots", "link_slots", "leaves", "returns", "uplink_loss")  # two are required


def options_of_file(path: Path, *, link_slots: int, devices: int | None = None) -> dict[str, Any]:
    """Return the options that say what `read_fleet` finds, so that nothing depends on the file any more."""
    fleet = read_fleet(path, link_slots=link_slots, devices=devices)
    return {
        "devices": fleet.devices,
        "device_compute_slots": fleet.compute_slots,
        "device_link_slots": () if set(fleet.link_slots) == {link_slots} else fleet.link_slots,
        "absences": tuple(tuple(absence) for absence in fleet.absences),
        "device_uplink_loss": fleet.device_uplink_loss,
    }


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
    (_, columns), *lines = _lines(path)
    found: dict[int, dict[str, int]] = {}
    losses: dict[int, float] = {}
    for number, fields in lines:
        if len(fields) != len(columns):
            raise _error(path, number, None, f"{len(fields)} fields: must be {len(columns)}, one a column")
        texts = dict(zip(columns, fields, strict=True))
        loss = _probability(path, number, texts.pop("uplink_loss", "0"))
        row = _numbers(path, number, texts)
        losses[row["device"]] = loss
        if row["device"] in found:
            raise _error(path, number, "device", f"{row['device']}: occurs twice")
        found[row["device"]] = row
    count = len(found)
    if not count:
        raise UserError(f"{path}: no devices: must have a row for each")
    if devices is not None and count != devices:
        raise UserError(f"{path}: {count} devices: must be {devices}")
    for (number, _), device in zip(lines, found, strict=True):
        if device > count:
            missing = next(n for n in range(1, count + 1) if n not in found)
            allowed = f"must be 1 to {count}, each once, and {missing} is missing"
            raise _error(path, number, "device", f"{device}: {allowed}")
    rows = [found[device] for device in range(1, count + 1)]
    return Fleet(
        compute_slots=tuple(row["compute_slots"] for row in rows),
        link_slots=tuple(row.get("link_slots", link_slots) for row in rows),
        absences=tuple(
            Absence(row["device"], row["leaves"], row.get("returns")) for row in rows if "leaves" in row
        ),
        device_uplink_loss=tuple(losses[device] for device in range(1, count + 1)),
    )


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return number and fields of every line that is not blank, the header first; check its columns."""
    try:
        # Spreadsheets begin a file with a byte order mark, which would become part of the first column.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            # Spaces within a field become one.
            lines = [(reader.line_num, [" ".join(field.split()) for field in fields]) for fields in reader]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, csv.Error) as error:  # ValueError: no UTF-8, or a name that no file can have
        raise UserError(f"{path}: not a CSV file: {error}") from None
    if not (filled := [line for line in lines if any(line[1])]):
        raise UserError(f"{path}: empty: must have a header row and a row for each device")
    row, columns = filled[0]
    for name in columns:
        if name not in COLUMNS:
            raise _error(path, row, name, f"unknown: allowed are {', '.join(COLUMNS)}")
        if columns.count(name) > 1:
            raise _error(path, row, name, "occurs twice")
    for name in (*COLUMNS[:2], *(["leaves"] if "returns" in columns else [])):
        if name not in columns:
            raise _error(path, row, name, "missing")
    return filled


def _probability(path: Path, number: int, text: str) -> float:
    """Return the uplink loss of a row; an empty field is 0."""
    if not text:
        return 0.0
    # float() alone would accept nan, inf and underscores.
    value = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", text) else -1.0
    if not 0 <= value < 1:
        what = f"{_printable(text)}: must be a probability from 0 to below 1"
        raise _error(path, number, "uplink_loss", what)
    return value


def _numbers(path: Path, number: int, fields: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of a row by column, without empty fields."""
    row: dict[str, int] = {}
    for column, text in fields.items():
        if text or column not in ("leaves", "returns"):
            smallest = 0 if column == "leaves" else 1
            # int() alone would accept signs, underscores and digits of other scripts.
            row[column] = int(text) if re.fullmatch("[0-9]{1,10}", text) else -1
            if not smallest <= row[column] <= LARGEST:
                allowed = f"must be a whole number from {smallest} to {LARGEST:,}"
                raise _error(path, number, column, f"{_printable(text) or 'empty'}: {allowed}")
    if "returns" in row and "leaves" not in row:
        raise _error(path, number, "leaves", "missing: must be given together with returns")
    if "returns" in row and row["returns"] <= row["leaves"]:
        raise _error(path, number, "returns", f"{row['returns']}: must be after leaves, {row['leaves']}")
    return row


def _error(path: Path, row: int, column: str | None, what: str) -> UserError:
    place = f"{path}, row {row}" + (f", column {_printable(column)}" if column is not None else "")
    return UserError(f"{place}: {what}")


def _printable(text: str) -> str:
    """Return the printable beginning of a field: enough to find it."""
    return "".join(character if character.isprintable() else "?" for character in text[:40])
