"""Uplinks per second of every kind of schedule: selections, sub-channels, fading links, faults, batteries.

    python benchmarks/schedule_cases.py [--devices 1000] [--slots 4000] [--repeats 3]

CPU time of `Setting.simulate`, medians; each case is simulated once before, so compiled code is loaded.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from typing import Any

import slotwise as sw
from slotwise.base.machine import describe_machine
from slotwise.schedule.selections import SELECTIONS

FADING = {"radio_link": "rate-adaptive", "radio_bits": 100_000, "radio_broadcast_bits": 100_000}
BATTERY = {"battery_joules": 100.0, "computing_joules": 0.1, "sending_joules": 0.2, "harvest_joules": 0.1}


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the options of each case."""
    for selection in SELECTIONS:
        for channels in (1, 4):
            own = {"schedule": "async", "selection": selection, "sub_channels": channels}
            if selection != "best-channel":
                yield f"async, {selection}, {channels} sub-channels", own
            yield f"async, fading, {selection}, {channels} sub-channels", own | FADING
    yield "idfl auto, fading", {"schedule": "idfl"} | FADING
    yield "idfl auto, fading, best-channel", {"schedule": "idfl", "selection": "best-channel"} | FADING
    yield "idfl auto, jitter", {"schedule": "idfl", "jitter": 0.3}
    yield "async, absences", {"schedule": "async", "mean_present": 500, "mean_away": 100}
    yield "async, batteries", {"schedule": "async"} | BATTERY
    yield "async, uplink losses", {"schedule": "async", "uplink_loss": 0.2}
    for choice in ("random", "best-channel"):
        yield f"sync, fading, {choice} participants", {"schedule": "sync", "participation": choice} | FADING


def rate(options: dict[str, Any], repeats: int) -> tuple[str, float]:
    """Return the simulator of a case and its uplinks per second."""
    setting = sw.Setting.from_options(options)
    setting.simulate(rounds=5)
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        timeline = setting.simulate()
        rates.append(len(timeline) / (time.process_time() - began))
    return setting.simulator.value, statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=4000, help="deadline of each schedule")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(f"{describe_machine()}; N={given.devices:,}, S=10, uplinks per second of CPU time")
    base = {"devices": given.devices, "group_size": 10, "compute_slots": 50, "deadline": given.slots}
    for name, own in cases():
        simulator, found = rate(base | own, given.repeats)
        print(f"{name:48} {simulator:18} {found:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
