"""FleetConfig: the options that describe a fleet, before random numbers are drawn for it.

A CSV file can say the same, with one row for each device. Its columns are ``device`` (1 to N, in any order)
and ``compute_slots``; ``link_slots``, ``leaves`` and ``returns`` are optional. A device without ``leaves`` is
always present; one without ``returns`` stays away for good. Rows are counted as an editor counts lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotwise.errors import ConflictError, InputError, UserError
from slotwise.fleet.distributions import Quantity, distribution_from, draw_slots, random_absences
from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.scenario import LARGEST, LARGEST_SEED, Scenario, check_fields, refuse_unused, whole


@dataclass(frozen=True, kw_only=True)
class FleetConfig:
    """Options for unequal devices; by default all are equal and without faults.

    Attributes:
        compute_distribution: Compute slots drawn for each device: constant:SLOTS, uniform:LOW:HIGH,
            lognormal:MEDIAN:SIGMA or two-classes:FAST:SLOW:SLOW_SHARE. Default: all alike.
        link_distribution: Uplink slots drawn for each device, likewise.
        device_compute_slots: Compute slots of devices 1 to N, one by one.
        device_link_slots: Uplink slots of devices 1 to N, one by one.
        uplink_slots: Slots of one uplink, if not those of a broadcast (--link-slots).
        jitter: A training takes up to this share longer or shorter, drawn anew for each.
        uplink_loss: Probability that an uplink is lost.
        retransmission: When a lost uplink is sent again: when its turn comes next, or at once.
        absences: (device, leaves, returns) for each absence; returns is None for good.
        mean_present: Mean slots for which a device is present, if devices come and go at random.
        mean_away: Mean slots for which it is then absent.
        fleet_seed: Random seed of everything drawn for the fleet. Default: that of the run.
    """

    compute_distribution: str | None = None
    link_distribution: str | None = None
    device_compute_slots: tuple[int, ...] = ()
    device_link_slots: tuple[int, ...] = ()
    uplink_slots: int | None = None
    jitter: float = 0.0
    uplink_loss: float = 0.0
    retransmission: Retransmission = "next-turn"
    absences: tuple[tuple[int, int, int | None], ...] = ()
    mean_present: float | None = None
    mean_away: float | None = None
    fleet_seed: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "absences", tuple(map(_absence, self.absences)))
        if self.uplink_slots is not None:
            whole("uplink_slots", self.uplink_slots)
        for one, other in CONFLICTS:
            if getattr(self, one) is not None and getattr(self, other):
                raise ConflictError(one, other)
        for one, other in (("mean_present", "mean_away"), ("mean_away", "mean_present")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise InputError(other, "missing", f"given together with {one}")
        if self.fleet_seed is not None:
            whole("fleet_seed", self.fleet_seed, 0, LARGEST_SEED)
        refuse_unused(self)

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another fleet."""
        drawn = (self.compute_distribution, self.link_distribution)
        if any(text is not None and not text.startswith("constant:") for text in drawn):
            return True
        return bool(self.jitter or self.uplink_loss) or self.mean_present is not None

    @property
    def has_own_speeds(self) -> bool:
        """True if each device has compute slots of its own, and the scenario's have no effect."""
        return self.compute_distribution is not None or bool(self.device_compute_slots)

    def unused(self) -> dict[str, str]:
        """Return the options without effect on this fleet, with the reason."""
        found = {} if self.uplink_loss else {"retransmission": "without uplink losses"}
        return found if self.depends_on_seed else {**found, "fleet_seed": "if nothing is drawn for the fleet"}

    def fleet(self, scenario: Scenario, seed: int = 0) -> Fleet | None:
        """Return the devices, or None if no option makes them unequal or faulty.

        ``seed`` is that of the run; a ``fleet_seed`` replaces it.
        """
        if self == FleetConfig():
            return None
        seed = seed if self.fleet_seed is None else self.fleet_seed
        refuse_too_many_devices(scenario)
        count, absences = scenario.devices, tuple(Absence(*absence) for absence in self.absences)
        each = self.device_compute_slots or (scenario.compute_slots,) * count
        compute = _slots("compute", self.compute_distribution, each, count, seed)
        each = self.device_link_slots or (self.uplink_slots or scenario.link_slots,) * count
        link = _slots("link", self.link_distribution, each, count, seed)
        present, away = self.mean_present, self.mean_away
        if present is not None and away is not None:
            if scenario.deadline is None:
                raise InputError("mean_present", present, "omitted if there is no deadline")
            means = {"mean_present": present, "mean_away": away}
            absences = random_absences(count, scenario.deadline, **means, seed=seed)
        return Fleet(
            compute_slots=compute,
            link_slots=link,
            jitter=self.jitter,
            uplink_loss=self.uplink_loss,
            retransmission=self.retransmission,
            absences=absences,
            seed=seed,
        )


MOST_DEVICES = 1_000_000
COLUMNS = ("device", "compute_slots", "link_slots", "leaves", "returns")  # the first two are required
CONFLICTS = (
    ("compute_distribution", "device_compute_slots"),
    ("link_distribution", "device_link_slots"),
    ("mean_present", "absences"),
    ("link_distribution", "uplink_slots"),
    ("uplink_slots", "device_link_slots"),
)


def refuse_too_many_devices(scenario: Scenario) -> None:
    """Raise an InputError if there are too many devices to have numbers of their own, or to be simulated."""
    if scenario.devices > MOST_DEVICES:
        raise InputError("devices", scenario.devices, f"at most {MOST_DEVICES:,}, if they are simulated")


def _slots(
    of: Quantity, distribution: str | None, each: Sequence[int], devices: int, seed: int
) -> tuple[int, ...]:
    """Return slots drawn from the distribution or, without one, ``each``."""
    if distribution is not None:
        return draw_slots(distribution_from(f"{of}_distribution", distribution), devices, seed=seed, of=of)
    name = f"device_{of}_slots"
    if len(each) != devices:
        raise InputError(name, f"{len(each)} numbers", f"{devices}, one for each device")
    for device, slots in enumerate(each, 1):
        try:
            whole(name, slots)
        except InputError as error:
            raise InputError(name, f"{slots} of device {device}", error.allowed) from None
    return tuple(each)


def _absence(value: Any) -> tuple[int, int, int | None]:
    try:
        device, leaves, returns = Absence(*value)
    except TypeError:
        raise InputError("absences", value, "lists of device, leaves and (unless for good) returns") from None
    return device, leaves, returns


def options_of_file(path: Path, *, link_slots: int, devices: int | None = None) -> dict[str, Any]:
    """Return the options that say what `read_fleet` finds, so that nothing depends on the file any more."""
    fleet = read_fleet(path, link_slots=link_slots, devices=devices)
    return {
        "devices": fleet.devices,
        "device_compute_slots": fleet.compute_slots,
        "device_link_slots": () if set(fleet.link_slots) == {link_slots} else fleet.link_slots,
        "absences": tuple(tuple(absence) for absence in fleet.absences),
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
    for number, fields in lines:
        if len(fields) != len(columns):
            raise _error(path, number, None, f"{len(fields)} fields: must be {len(columns)}, one a column")
        row = _numbers(path, number, dict(zip(columns, fields, strict=True)))
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
    )


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return number and fields of every line that is not blank, the header first; check its columns."""
    try:
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


def _numbers(path: Path, number: int, fields: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of a row by column, without empty fields."""
    row: dict[str, int] = {}
    for column, text in fields.items():
        if text or column not in ("leaves", "returns"):
            smallest = 0 if column == "leaves" else 1
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
