"""Uplinks per second of every kind of schedule: selections, sub-channels, fading links, faults, batteries.

    python benchmarks/schedule_cases.py [--devices 1000 10000] [--repeats 3] [--slowest 15] [--before SRC]

Prints a Markdown table: CPU time of `Setting.simulate`, the best of several. The deadline is 4 slots for each
device, so that a device sends as often with many devices as with few. Each case is simulated once before, so
compiled code is loaded. `--before` is the folder `src` of another version, which is measured in turns with
this one, in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np

import slotwise as sw
from slotwise.base.machine import describe_machine
from slotwise.schedule.selections import SELECTIONS

HERE = Path(sw.__file__).parent.parent
FADING = {"radio_link": "rate-adaptive", "radio_bits": 100_000, "radio_broadcast_bits": 100_000}
FIXED_RATE = {"radio_link": "fixed-rate", "radio_threshold_db": 3.0}
ACCESS = {
    "ofdma": {"access": "ofdma"},
    "ofdma inverse-rate": {"access": "ofdma", "allocation": "inverse-rate"},
    "ofdma min-max": {"access": "ofdma", "allocation": "min-max"},
    "noma": {"access": "noma"},
    "noma most-distinct": {"access": "noma", "pairing": "most-distinct"},
    "noma of 4": {"access": "noma", "noma_devices": 4},
}
BATTERY = {"battery_joules": 100.0, "computing_joules": 0.1, "sending_joules": 0.2, "harvest_joules": 0.1}


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the options of each case."""
    for selection in SELECTIONS:
        for channels in (1, 4):
            own = {"schedule": "async", "selection": selection, "sub_channels": channels}
            if selection != "best-channel":
                yield f"async, {selection}, {channels} sub-channels", own
            yield f"async, fading, {selection}, {channels} sub-channels", own | FADING
    yield "async, fixed rate", {"schedule": "async"} | FIXED_RATE
    for fading in ("rician", "nakagami"):
        yield f"async, {fading}", {"schedule": "async", "radio_fading": fading} | FADING
        own = {"schedule": "async", "selection": "best-channel", "radio_fading": fading}
        yield f"async, {fading}, best-channel", own | FADING
    yield "idfl auto, fading", {"schedule": "idfl"} | FADING
    yield "idfl auto, fading, best-channel", {"schedule": "idfl", "selection": "best-channel"} | FADING
    yield "idfl auto, jitter", {"schedule": "idfl", "jitter": 0.3}
    yield "async, absences", {"schedule": "async", "mean_present": 500, "mean_away": 100}
    yield "async, batteries", {"schedule": "async"} | BATTERY
    yield "async, harvest by chance", {"schedule": "async", "harvest_probability": 0.5} | BATTERY
    yield "async, uplink losses", {"schedule": "async", "uplink_loss": 0.2}
    for name, own in ACCESS.items():
        yield f"async, fading, {name}", {"schedule": "async"} | own | FADING
    yield "async, fdd", {"schedule": "async", "duplex": "fdd"}
    for choice in ("random", "best-channel"):
        yield f"sync, fading, {choice} participants", {"schedule": "sync", "participation": choice} | FADING


def rate(options: dict[str, Any], repeats: int) -> float:
    """Return the uplinks per second of a case."""
    setting = sw.Setting.from_options(options)
    setting.simulate(rounds=5)
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        timeline = setting.simulate()
        rates.append(len(timeline) / (time.process_time() - began))
    return max(rates)


def rate_elsewhere(source: Path, options: dict[str, Any], repeats: int) -> float:
    """Return the same of another version, in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(options), "--repeats", str(repeats)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure(own: dict[str, Any], devices: list[int], sources: list[Path], repeats: int) -> list[float]:
    """Return the uplinks per second of a case with each number of devices, in each version."""
    rates = []
    for count in devices:
        base = {"devices": count, "group_size": 10, "compute_slots": 50, "deadline": 4 * count}
        rates += [rate_elsewhere(source, base | own, repeats) for source in sources]
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--slowest", type=int, help="print so many cases, the slowest first")
    parser.add_argument("--before", type=Path, help="folder src of another version")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(rate(json.loads(given.case), given.repeats))
        return
    sources = [HERE] if given.before is None else [given.before.resolve(), HERE]
    versions = f"Python {sys.version.split()[0]}, numpy {np.__version__}, numba {numba.__version__}"
    print(f"{describe_machine()}; {versions}; S=10, T=4N, uplinks per second of CPU time\n")
    names = [("", ""), (" before", " after")][len(sources) - 1]
    columns = [f"N={count:,}{name}" for count in given.devices for name in names[-len(sources) :]]
    print(f"| case | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    rows: list[tuple[str, list[float]]] = []
    for name, own in cases():
        if given.only in name:
            print(name, file=sys.stderr)
            rows.append((name, measure(own, given.devices, sources, given.repeats)))
    if given.slowest:
        rows = sorted(rows, key=lambda row: row[1][len(sources) - 1])[: given.slowest]
    for name, cells in rows:
        print(f"| {name} | {' | '.join(f'{cell:,.0f}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
