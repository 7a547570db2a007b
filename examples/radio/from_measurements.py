"""Turn a measurement campaign into a trace for --radio-trace.

The log is a CSV file with a header and the columns ``seconds``, ``name`` (of the device) and ``snr_db``, as
most receivers write it after a little editing. Devices are numbered in the order of their names. Times are
cut into slots, which get the mean of their values. What was not measured is not invented: a device without a
value in a slot is an error, unless ``--hold`` allows to keep the last value for so many slots.

    python examples/radio/from_measurements.py log.csv trace.csv --slot-ms 100 --hold 5
    slotwise train --devices 12 --radio-link rate-adaptive --radio-trace trace.csv --radio-trace-end repeat \
        --out runs/measured
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from slotwise.radio import write_trace


def read(path: Path, slot_seconds: float) -> dict[str, dict[int, list[float]]]:
    """Return the values of each device by slot; the first measurement is in slot 0."""
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="") as file:
        rows = [(float(row["seconds"]), row["name"], float(row["snr_db"])) for row in csv.DictReader(file)]
    begin = min(seconds for seconds, _, _ in rows)
    for seconds, name, value in rows:
        found[name][int((seconds - begin) / slot_seconds)].append(value)
    return {name: dict(found[name]) for name in sorted(found)}


def matrix(found: dict[str, dict[int, list[float]]], hold: int) -> np.ndarray:
    """Return the mean SNR in dB [slots, devices], with gaps of at most ``hold`` slots filled."""
    last = min(max(slots) for slots in found.values())  # until the first device stops
    values = np.empty((last + 1, len(found)))
    for column, (name, slots) in enumerate(found.items()):
        since = 0
        for slot in range(last + 1):
            if slot in slots:
                # dB are averaged as powers.
                values[slot, column] = 10 * np.log10(np.mean(10 ** (np.array(slots[slot]) / 10)))
                since = slot
            elif slot == 0 or slot - since > hold:
                raise SystemExit(f"{name} has no value in slot {slot}: measure more often, or --hold more")
            else:
                values[slot, column] = values[slot - 1, column]
    return values


def main() -> None:
    """Convert a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path, help="CSV file with seconds, name and snr_db")
    parser.add_argument("trace", type=Path, help="CSV file to write")
    parser.add_argument("--slot-ms", type=float, default=100.0, help="duration of a slot")
    parser.add_argument("--hold", type=int, default=0, help="slots for which a value may be kept")
    options = parser.parse_args()
    found = read(options.log, options.slot_ms / 1000)
    values = matrix(found, options.hold)
    write_trace(options.trace, values, time="slot")
    print(f"wrote {options.trace}: {len(found)} devices, {len(values)} slots ({', '.join(found)})")


if __name__ == "__main__":
    main()
