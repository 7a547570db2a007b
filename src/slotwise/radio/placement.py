"""Placement of devices around the server: uniform in a cell, on a ring, or given by a CSV file.

The file has a row for each device, in any order: ``device`` (1 to N) and either ``distance_m`` or ``x_m`` and
``y_m`` with the server at the origin.
"""

from __future__ import annotations

from math import hypot
from pathlib import Path

import numpy as np

from slotwise.errors import UserError
from slotwise.fleet.chances import Floats, units
from slotwise.fleet.csv_rows import CsvTable, read_table
from slotwise.radio.draws import DISTANCE, device_states

LARGEST_DISTANCE = 1e7  # metres


def cell_distances(devices: int, radius: float, nearest: float, seed: int) -> Floats:
    """Return distances of devices uniform in the area of a cell, at least ``nearest`` from its centre.

    The area within distance d grows with d², so d = sqrt(a² + u (R² − a²)) with u uniform in [0, 1).
    """
    number = units(device_states(seed, DISTANCE, devices))
    return np.sqrt(nearest**2 + number * (radius**2 - nearest**2))


def ring_distances(devices: int, radius: float) -> Floats:
    """Return the distance of devices that all stand on a circle around the server."""
    return np.full(devices, float(radius))


def read_distances(path: Path, devices: int | None = None) -> tuple[float, ...]:
    """Read the distances of devices 1 to N in metres from a CSV file.

    Raises:
        UserError: the file is malformed; the message names the file, row and column.
    """
    table = read_table(path, ("device", "distance_m", "x_m", "y_m"), required=("device",))
    if "distance_m" in table.columns and {"x_m", "y_m"} & set(table.columns):
        raise table.error(table.header_row, "distance_m", "cannot be combined with x_m and y_m")
    wanted = ("distance_m",) if "distance_m" in table.columns else ("x_m", "y_m")
    for name in wanted:
        if name not in table.columns:
            raise table.error(table.header_row, name, "missing")
    found: dict[int, float] = {}
    for row in table.rows:
        device = table.whole(row, "device", 1)
        if device in found:
            raise table.error(row.number, "device", f"{device}: occurs twice")
        found[device] = _distance(table, row.number, [table.number(row, name) for name in wanted])
    return _in_order(path, found, devices)


def _distance(table: CsvTable, row: int, position: list[float]) -> float:
    distance = position[0] if len(position) == 1 else hypot(*position)
    if not 0 < distance <= LARGEST_DISTANCE:
        column = "distance_m" if len(position) == 1 else "x_m"
        raise table.error(row, column, f"{distance:g} m: must be above 0 and at most 10,000 km")
    return distance


def _in_order(path: Path, found: dict[int, float], devices: int | None) -> tuple[float, ...]:
    if not found:
        raise UserError(f"{path}: no devices: must have a row for each")
    if devices is not None and len(found) != devices:
        raise UserError(f"{path}: {len(found)} devices: must be {devices}")
    for device in range(1, len(found) + 1):
        if device not in found:
            raise UserError(f"{path}: device {device} is missing: must be 1 to {len(found)}, each once")
    return tuple(found[device] for device in range(1, len(found) + 1))
