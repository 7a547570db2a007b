"""Placement of devices around the server: uniform in a cell, on a ring, or distance by distance.

To add a placement, write a class with the methods of `RingPlacement` and name it in `PLACEMENTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from slotwise.base.errors import InputError, UserError
from slotwise.base.random_streams import Floats, SchedulePurpose, device_states, units
from slotwise.fleet.csv_rows import CsvTable, read_table
from slotwise.options import Choice, FileName, Named, NoFlag, Range, StandsFor
from slotwise.options.checks import Value

NEAREST_DISTANCE, LARGEST_DISTANCE = 0.1, 1e7  # metres
Metres = Annotated[float, Range(least=NEAREST_DISTANCE, most=LARGEST_DISTANCE)]


@dataclass(frozen=True, kw_only=True)
class RingPlacement(Value):
    """All devices on a circle around the server.

    Attributes:
        radius_m: Radius of the cell or ring, in metres.
    """

    is_random: ClassVar[bool] = False
    radius_m: Metres = 500.0

    def distances(self, devices: int, seed: int) -> Floats:  # noqa: ARG002
        """Return the distances of devices 1 to N from the server, in metres."""
        return np.full(devices, self.radius_m)

    def refuse_beyond(self, farthest: float, reason: str) -> None:
        """Raise an InputError if the radius is larger than ``farthest``."""
        if self.radius_m > farthest:
            raise InputError("radio_radius_m", f"{self.radius_m:g}", f"at most {farthest:g} {reason}")


@dataclass(frozen=True, kw_only=True)
class CellPlacement(RingPlacement):
    """Devices uniform in the area of a cell, but not next to its centre.

    The area within distance d grows with d², so d = sqrt(a² + u (R² − a²)) with u uniform in [0, 1).

    Attributes:
        nearest_m: Smallest distance to the server in a cell, in metres.
    """

    is_random: ClassVar[bool] = True
    nearest_m: Metres = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nearest_m >= self.radius_m:
            raise InputError("nearest_m", f"{self.nearest_m:g}", f"below radio_radius_m, {self.radius_m:g}")

    def distances(self, devices: int, seed: int) -> Floats:
        """Return a distance for each device, drawn from the seed."""
        number = units(device_states(seed, SchedulePurpose.DISTANCE, devices))
        return np.sqrt(self.nearest_m**2 + number * (self.radius_m**2 - self.nearest_m**2))


@dataclass(frozen=True, kw_only=True)
class ListedPlacement(Value):
    """Distances that are given one by one.

    Attributes:
        distances_m: Distances of devices 1 to N in metres, one by one.
    """

    is_random: ClassVar[bool] = False
    distances_m: Annotated[tuple[float, ...], NoFlag()]

    def __post_init__(self) -> None:
        super().__post_init__()
        for device, distance in enumerate(self.distances_m, start=1):
            if isinstance(distance, bool) or not isinstance(distance, int | float):
                raise InputError("distances_m", distance, "a list of numbers")
            if not NEAREST_DISTANCE <= distance <= LARGEST_DISTANCE:
                allowed = f"numbers from {NEAREST_DISTANCE:g} to {LARGEST_DISTANCE:,g}"
                raise InputError("distances_m", f"{distance} of device {device}", allowed)
        object.__setattr__(self, "distances_m", tuple(map(float, self.distances_m)))

    def distances(self, devices: int, seed: int) -> Floats:  # noqa: ARG002
        """Return the distances; there must be one for each device."""
        if len(self.distances_m) != devices:
            given = f"{len(self.distances_m)} numbers"
            raise InputError("radio_distances_m", given, f"{devices}, one for each device")
        return np.array(self.distances_m, dtype=np.float64)

    def refuse_beyond(self, farthest: float, reason: str) -> None:
        """Raise an InputError if a distance is larger than ``farthest``."""
        distance, device = max((distance, -n) for n, distance in enumerate(self.distances_m, start=1))
        if distance > farthest:
            given = f"{distance:g} of device {-device}"
            raise InputError("radio_distances_m", given, f"at most {farthest:g} m {reason}")


@dataclass(frozen=True, kw_only=True)
class PlacementFile(StandsFor):
    """Distances or positions in a CSV file, which is read when a link is described.

    Attributes:
        path: CSV file with a row for each device: device, and distance_m or x_m and y_m.
    """

    path: Annotated[Path, FileName(), Named("placement_file")]

    def meant(self) -> ListedPlacement:
        """Read the distances from the file."""
        if not isinstance(self.path, str | Path):
            raise InputError("radio_placement_file", self.path, "the name of a CSV file")
        return ListedPlacement(distances_m=read_distances(Path(self.path)))


PLACEMENTS: Mapping[str, type[Any]] = {"cell": CellPlacement, "ring": RingPlacement}
PLACEMENT = Choice("radio_placement", PLACEMENTS, prefix="radio_", unnamed=(ListedPlacement, PlacementFile))


def read_distances(path: Path) -> tuple[float, ...]:
    """Read the distances of devices 1 to N in metres from a CSV file.

    It has a row for each device, in any order: ``device`` (1 to N) and either ``distance_m`` or ``x_m`` and
    ``y_m`` with the server at the origin.

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
    distances: dict[int, float] = {}
    for row in table.rows:
        device = table.whole(row, "device", 1)
        if device in distances:
            raise table.error(row.number, "device", f"{device}: occurs twice")
        distances[device] = _distance(table, row.number, [table.number(row, name) for name in wanted])
    if not distances:
        raise UserError(f"{path}: no devices: must have a row for each")
    for device in range(1, len(distances) + 1):
        if device not in distances:
            raise UserError(f"{path}: device {device} is missing: must be 1 to {len(distances)}, each once")
    return tuple(distances[device] for device in range(1, len(distances) + 1))


def _distance(table: CsvTable, row: int, position: list[float]) -> float:
    distance = position[0] if len(position) == 1 else hypot(*position)
    if not NEAREST_DISTANCE <= distance <= LARGEST_DISTANCE:
        column = "distance_m" if len(position) == 1 else "x_m"
        raise table.error(row, column, f"{distance:g} m: must be from 0.1 m to 10,000 km")
    return distance
