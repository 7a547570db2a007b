"""A CSV file of a fleet, with one row for each device.

Its columns are ``device`` (1 to N, in any order) and ``compute_slots``; optional are ``link_slots``,
``leaves``, ``returns`` and ``uplink_loss``. A device without ``leaves`` is always present; one without
``returns`` stays away for good. Rows are counted as an editor counts lines.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from slotwise.base.errors import InputError, UserError
from slotwise.fleet.absences import Absence
from slotwise.fleet.csv_rows import CsvTable, Row, read_table
from slotwise.fleet.devices import (
    EVERY_SPEED,
    DrawnUplinks,
    ListedAbsences,
    ListedLosses,
    ListedUplinks,
    RandomAbsences,
)
from slotwise.fleet.fleet import Fleet
from slotwise.options import FileName, Shorthand, declared, is_given
from slotwise.options.checks import whole

COLUMNS = ("device", "compute_slots", "link_slots", "leaves", "returns", "uplink_loss")  # two are required


@dataclass(frozen=True, kw_only=True)
class FleetFile(Shorthand):
    """A file that says of each device what other options say of all.

    Attributes:
        fleet_file: CSV file with a row for each device: device, compute_slots and optionally link_slots,
            leaves, returns, uplink_loss.
    """

    panel: ClassVar[str] = "fleet"
    fleet_file: Annotated[Path, FileName()]

    def __post_init__(self) -> None:
        if not isinstance(self.fleet_file, str | Path):
            raise InputError("fleet_file", self.fleet_file, "the name of a CSV file")

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return the options of speeds, uplinks, losses and absences."""
        uplinks = [name for part in (DrawnUplinks, ListedUplinks) for name in declared(part)]
        listed = [name for part in (ListedLosses, ListedAbsences) for name in declared(part)]
        return (*EVERY_SPEED, *uplinks, *listed, *declared(RandomAbsences))

    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return what the file says, so that nothing depends on it any more."""
        given = "link_slots" if known["uplink_slots"] is None else "uplink_slots"
        usual = whole(given, known[given])
        devices = known.maps[0].get("devices")
        fleet = read_fleet(Path(self.fleet_file), link_slots=usual, devices=devices)
        found = {
            "devices": fleet.devices,
            "device_compute_slots": fleet.compute_slots,
            "device_link_slots": () if set(fleet.link_slots) == {usual} else fleet.link_slots,
            "absences": tuple(tuple(absence) for absence in fleet.absences),
            "device_uplink_loss": fleet.device_uplink_loss,
        }
        return {name: value for name, value in found.items() if is_given(value)}


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
    table = read_table(path, COLUMNS, required=COLUMNS[:2])
    if "returns" in table.columns and "leaves" not in table.columns:
        raise table.error(table.header_row, "leaves", "missing")
    found: dict[int, dict[str, int]] = {}
    losses: dict[int, float] = {}
    for line in table.rows:
        loss, row = _probability(table, line), _numbers(table, line)
        losses[row["device"]] = loss
        if row["device"] in found:
            raise table.error(line.number, "device", f"{row['device']}: occurs twice")
        found[row["device"]] = row
    count = len(found)
    if not count:
        raise UserError(f"{path}: no devices: must have a row for each")
    if devices is not None and count != devices:
        raise UserError(f"{path}: {count} devices: must be {devices}")
    for line, device in zip(table.rows, found, strict=True):
        if device > count:
            missing = next(n for n in range(1, count + 1) if n not in found)
            allowed = f"1 to {count}, each once, and {missing} is missing"
            raise table.wrong(line, "device", allowed)
    rows = [found[device] for device in range(1, count + 1)]
    return Fleet(
        compute_slots=tuple(row["compute_slots"] for row in rows),
        link_slots=tuple(row.get("link_slots", link_slots) for row in rows),
        absences=tuple(
            Absence(row["device"], row["leaves"], row.get("returns")) for row in rows if "leaves" in row
        ),
        device_uplink_loss=tuple(losses[device] for device in range(1, count + 1)),
    )


def _probability(table: CsvTable, row: Row) -> float:
    """Return the uplink loss of a row; without one it is 0."""
    text = row.fields.get("uplink_loss")
    if not text:
        return 0.0
    # float() alone would accept nan, inf and underscores.
    value = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", text) else -1.0
    if not 0 <= value < 1:
        raise table.wrong(row, "uplink_loss", "a probability from 0 to below 1")
    return value


def _numbers(table: CsvTable, row: Row) -> dict[str, int]:
    """Return the whole numbers of a row by column, without empty fields."""
    found: dict[str, int] = {}
    for column, text in row.fields.items():
        if column != "uplink_loss" and (text or column not in ("leaves", "returns")):
            found[column] = table.whole(row, column, 0 if column == "leaves" else 1)
    if "returns" in found and "leaves" not in found:
        raise table.error(row.number, "leaves", "missing: must be given together with returns")
    if "returns" in found and found["returns"] <= found["leaves"]:
        raise table.wrong(row, "returns", f"after leaves, {found['leaves']}")
    return found
