"""Turn the uplink SINR that ns-3's LTE module logs into a trace for --radio-trace.

With ``lteHelper->EnablePhyTraces()`` ns-3 writes UlSinrStats.txt: columns separated by tabs, with time in
seconds, cellId, IMSI, RNTI, sinrLinear and componentCarrierId. This takes the mean SINR of every device in
every slot; a slot without a value has that of the slot before (ns-3 logs only while a device is scheduled).

    python examples/radio/from_ns3.py UlSinrStats.txt trace.csv --slot-ms 100
    slotwise timeline --devices 20 --deadline 600 --radio-link rate-adaptive --radio-trace trace.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from slotwise.radio import write_trace


def read(path: Path, slot_seconds: float) -> np.ndarray:
    """Return the mean linear SINR [slots, devices]; NaN where nothing was logged. IMSI n is device n."""
    table = np.loadtxt(path, comments="%", ndmin=2)
    slot = (table[:, 0] / slot_seconds).astype(int)
    device, sinr = table[:, 2].astype(int) - 1, table[:, 4]
    shape = (slot.max() + 1, device.max() + 1)
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (slot, device), sinr)
    np.add.at(count, (slot, device), 1)
    with np.errstate(invalid="ignore"):
        return total / count


def fill(values: np.ndarray) -> np.ndarray:
    """Return the values with each gap filled by the value before it, or the first one after it."""
    for column in values.T:
        known = np.flatnonzero(~np.isnan(column))
        if not len(known):
            raise SystemExit("a device has no values at all: give devices the IMSIs 1 to N")
        latest = np.maximum(np.searchsorted(known, np.arange(len(column)), side="right") - 1, 0)
        column[:] = column[known[latest]]
    return values


def main() -> None:
    """Convert a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path, help="UlSinrStats.txt")
    parser.add_argument("trace", type=Path, help="CSV file to write")
    parser.add_argument("--slot-ms", type=float, default=100.0, help="duration of a slot")
    options = parser.parse_args()
    values = fill(read(options.log, options.slot_ms / 1000))
    write_trace(options.trace, 10 * np.log10(values), time="slot")
    print(f"wrote {options.trace}: {values.shape[1]} devices, {values.shape[0]} slots")


if __name__ == "__main__":
    main()
