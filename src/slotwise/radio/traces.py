"""Traces: recorded or simulated channel conditions in a CSV file, which replace the radio model.

The columns are ``device`` (1 to N), ``slot`` or ``block`` (from 0) and ``snr_db`` or ``bits``; rows may be in
any order. ``snr_db`` is the SNR of the uplink, ``bits`` what one slot carries. Every device needs a row for
every slot or block from 0 to the last: holes are refused. After its end a trace starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.files import write_csv
from slotwise.base.random_streams import Floats
from slotwise.fleet.csv_rows import CsvTable, Row, read_table

MOST_VALUES = 20_000_000
TIMES, QUANTITIES = ("slot", "block"), ("snr_db", "bits")


@dataclass(frozen=True, eq=False)
class Trace:
    """The values of a trace: one row per slot or block, one column per device."""

    time: str  # "slot" or "block"
    quantity: str  # "snr_db" or "bits"
    values: Floats  # [slots or blocks, N]

    @property
    def devices(self) -> int:
        """The number of devices N."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, first: int, count: int) -> Floats:
        """Return ``count`` rows from ``first`` on; the trace repeats after its end."""
        return self.values[np.arange(first, first + count) % len(self)]


def read_trace(path: Path | str, devices: int | None = None) -> Trace:
    """Read a trace from a CSV file; ``devices`` is the number there must be, None accepts any.

    Raises:
        UserError: the file is malformed or has holes; the message names the file, row and column.
    """
    table = read_table(Path(path), ("device", *TIMES, *QUANTITIES), required=("device",))
    time, quantity = _choice(table, TIMES), _choice(table, QUANTITIES)
    found: dict[tuple[int, int], float] = {}
    last = most = 0
    for row in table.rows:
        device, moment = table.whole(row, "device", 1), table.whole(row, time, 0)
        if devices is not None and device > devices:
            raise table.error(row.number, "device", f"{device}: must be from 1 to {devices}")
        if (moment, device) in found:
            raise table.error(row.number, time, f"{moment} of device {device} occurs twice")
        found[moment, device] = _value(table, row, quantity)
        last, most = max(last, moment), max(most, device)
    if not found:
        raise UserError(f"{path}: no rows: must have one for each device and {time}")
    if devices is not None and most < devices:
        shown = f"{most} device{'s' if most > 1 else ''}"
        raise UserError(
            f"{path}: the trace has {shown}, the run {devices}: it must have rows for all of them"
        )
    count = most if devices is None else devices
    if (last + 1) * count > MOST_VALUES:
        raise UserError(f"{path}: {(last + 1) * count:,} values: {MOST_VALUES:,} are the most")
    return Trace(time, quantity, _matrix(table, found, last + 1, count, time))


def _choice(table: CsvTable, names: tuple[str, str]) -> str:
    """Return which of two columns the file has; it must have exactly one."""
    present = [name for name in names if name in table.columns]
    if len(present) == 2:
        raise table.error(table.header_row, present[1], f"cannot be combined with {present[0]}")
    if not present:
        raise table.error(table.header_row, f"{names[0]} or {names[1]}", "missing")
    return present[0]


def _value(table: CsvTable, row: Row, quantity: str) -> float:
    if quantity == "bits":
        return float(table.whole(row, "bits", 0))
    value = table.number(row, "snr_db")
    if not -200 <= value <= 200:
        raise table.error(row.number, "snr_db", f"{value:g}: must be from -200 to 200 dB")
    return value


def _matrix(
    table: CsvTable, found: dict[tuple[int, int], float], length: int, devices: int, time: str
) -> Floats:
    values = np.full((length, devices), np.nan)
    moments, numbers = np.array(list(found), dtype=np.int64).T
    values[moments, numbers - 1] = list(found.values())
    holes = np.argwhere(np.isnan(values))
    if len(holes):
        moment, column = holes[0].tolist()
        more = f" ({len(holes):,} in all)" if len(holes) > 1 else ""
        after = max((row.number for row in table.rows if row.fields["device"] == str(column + 1)), default=0)
        row = after or table.rows[-1].number
        needed = f"must have one for 0 to {length - 1}"
        what = f"device {column + 1} has no row for {time} {moment}{more}: {needed}"
        raise table.error(row, time, what)
    return values


def write_trace(path: Path | str, values: Floats, *, time: str = "block", quantity: str = "snr_db") -> None:
    """Write a trace that `read_trace` reads; ``values`` are [slots or blocks, N]."""
    write_csv(Path(path), ("device", time, quantity), _rows(values, whole=quantity == "bits"))


def _rows(values: Floats, *, whole: bool) -> Iterator[tuple[int, int, float]]:
    lists = values.astype(np.int64).tolist() if whole else values.tolist()
    return chain.from_iterable(
        ((device, moment, value) for device, value in enumerate(row, 1)) for moment, row in enumerate(lists)
    )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, by which a resumed run recognises it."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
