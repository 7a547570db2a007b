"""How fast asynchronous FL over fading links is simulated, and how the cost of an uplink grows with N.

Rayleigh block fading of the radio model with unequal mean SNRs, and a selection: the compiled loop
(`slotwise.schedule.fading_simulator`) beside the Scheduler driven event by event, which must give the same
timeline. Uplinks take one slot and are lost in outage, or take the slots until their bits are through. Then
schedules and options, compiled or event by event, at 100 and 1,000 devices; and first-ready devices with
losses, event by event, at growing numbers of devices.

    python benchmarks/fading.py [--json] [--repeats 3]

Fails (exit code 1) if proportional fair at N=1,000 and T=100,000 is below 100,000 uplinks/s with blocks of 1,
10 or 100 slots, 10,000 devices with losses are below 0.7 of the speed of 100, or the peak memory reaches
500 MB.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import slotwise as sw
from slotwise import Asynchronous, Scenario, Timeline, simulate
from slotwise.fleet import Batteries, Fleet
from slotwise.options import choose
from slotwise.radio import LINK, inverse_rate, min_max
from slotwise.schedule import SELECTIONS, Link, most_distinct

DEVICES, DEADLINE = 1_000, 100_000
CHANNEL = Scenario(devices=DEVICES, group_size=10, compute_slots=50, deadline=DEADLINE)
COHERENCE = (1, 10, 100)  # slots; the smaller, the more draws
MODES = {"fixed-rate": "one slot", "rate-adaptive": "until through"}
BITS = 250_000  # of an update and of a model: some slots far away, one near the server
SELECTED = ("proportional-fair", "best-channel", "largest-age")
SIZES = (100, 1_000, 10_000)
LOSSES_DEADLINE = 200_000
BATTERIES = Batteries(
    capacity=(400.0,), computing=(1.0,), sending=(2.0,), harvest=(1.0,), probability=0.3, seed=1
)
REQUIRED_SPEED, REQUIRED_FLATNESS, MEMORY_LIMIT = 100_000, 0.7, 500_000_000


def make_fading_link(mode: str, coherence_slots: int, channel: Scenario, fading: str = "rayleigh") -> Link:
    """Return a link with mean SNRs from 20 to 0 dB; at a fixed rate, uplinks below 0 dB are lost."""
    # 23 dBm − 20 log10(d) + 109 dBm of noise over 1 MHz.
    distances = 10 ** ((132 - np.linspace(20.0, 0.0, channel.devices)) / 20)
    options: dict[str, Any] = {
        "radio_link": mode,
        "radio_distances_m": tuple(distances.tolist()),
        "radio_path_loss": "log-distance",
        "radio_exponent": 2.0,
        "radio_reference_db": 0.0,
        "radio_coherence_slots": coherence_slots,
        "radio_fading": fading,
    }
    if mode == "fixed-rate":
        options["radio_threshold_db"] = 0.0
    link: Link = choose(LINK, options).with_bits(BITS, BITS).link(channel)
    return link


class Result(NamedTuple):
    """Uplinks per second, lost ones included."""

    case: str
    way: str
    devices: int
    uplinks: int
    per_second: float


def measured(case: str, way: str, devices: int, repeats: int, work: Callable[[], Timeline]) -> Result:
    """Median CPU time of some repeats."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        timeline = work()
        spent.append(time.process_time() - start)
    uplinks = len(timeline) + len(timeline.lost)
    return Result(case, way, devices, uplinks, uplinks / statistics.median(spent))


def fading(repeats: int) -> list[Result]:
    """The compiled loop at full length; the Scheduler, at a hundredth of it, must agree."""
    found = []
    fair = [(SELECTED[0], mode, coherence) for mode in MODES for coherence in COHERENCE]
    for name, mode, coherence in [*fair, *((name, "fixed-rate", 10) for name in SELECTED[1:])]:
        policy, link = Asynchronous(selection=SELECTIONS[name]), make_fading_link(mode, coherence, CHANNEL)
        case = f"{name}, {MODES[mode]}, blocks of {coherence}"
        short = replace(CHANNEL, deadline=DEADLINE // 100)
        by_event = partial(simulate, short, policy, link=link, event_by_event=True)
        if simulate(short, policy, link=link) != by_event():
            sys.exit(f"{case}: the timelines differ")
        compiled = partial(simulate, CHANNEL, policy, link=link)
        found.append(measured(case, "compiled", DEVICES, repeats, compiled))
        found.append(measured(case, "event by event", DEVICES, 1, by_event))
    return found


# Schedules over rate-adaptive links in blocks of 10 slots: options, sub-channels, and slots at N=1,000.
SCHEDULES: dict[str, tuple[dict[str, Any], int, int]] = {
    "async, proportional-fair": ({"policy": "async", "selection": "proportional-fair"}, 1, 40_000),
    "async, first-ready": ({"policy": "async"}, 1, 4_000),
    "idfl auto, first-ready": ({"policy": "idfl"}, 1, 4_000),
    "sync, participants in turn": ({"policy": "sync"}, 1, 4_000),
    "async, first-ready, 4 sub-channels": ({"policy": "async"}, 4, 4_000),
    "async, first-ready, batteries": ({"policy": "async", "fleet": BATTERIES}, 1, 4_000),
    "sync, proportional-fair": ({"policy": "sync", "participation": "proportional-fair"}, 1, 4_000),
    "async, proportional-fair, 4 sub-channels": (
        {"policy": "async", "selection": "proportional-fair"},
        4,
        300,
    ),
    "async, ofdma": ({"policy": "async", "access": sw.Ofdma()}, 1, 4_000),
    "async, ofdma, inverse-rate": (
        {"policy": "async", "access": sw.Ofdma(allocation=inverse_rate)},
        1,
        4_000,
    ),
    "async, ofdma, min-max": ({"policy": "async", "access": sw.Ofdma(allocation=min_max)}, 1, 4_000),
    "async, noma": ({"policy": "async", "access": sw.Noma()}, 1, 4_000),
    "async, noma of 4": ({"policy": "async", "access": sw.Noma(devices=4)}, 1, 4_000),
    "async, noma, most-distinct": ({"policy": "async", "access": sw.Noma(pairing=most_distinct)}, 1, 4_000),
    "async, over the air": ({"policy": "async", "access": sw.OverTheAir(snr_db=0.0)}, 1, 4_000),
    "async, fdd": ({"policy": "async", "duplex": "fdd"}, 1, 4_000),
    "async, round-robin": ({"policy": "async", "selection": "round-robin"}, 1, 600),
    "async, shortest-uplink": ({"policy": "async", "selection": "shortest-uplink"}, 1, 600),
    "idfl auto, proportional-fair": ({"policy": "idfl", "selection": "proportional-fair"}, 1, 600),
}


def schedules() -> list[Result]:
    """Schedules and options, of which the first is compiled; and a fading that is drawn by numpy."""
    found = []
    for case, (options, sub_channels, slots) in SCHEDULES.items():
        for devices in SIZES[:2]:
            deadline = slots if devices == DEVICES else max(slots, 4_000)
            channel = replace(CHANNEL, devices=devices, sub_channels=sub_channels, deadline=deadline)
            given = dict(options)
            channel = replace(channel, duplex=given.pop("duplex", "tdd"))
            access = given.pop("access", sw.Tdma())
            if "fleet" in given:
                given["fleet"] = replace(Fleet.equal(channel), batteries=given["fleet"])
            link = access.link(make_fading_link("rate-adaptive", 10, channel))
            work = partial(simulate, channel, link=link, **given)
            work()  # plans are made once
            way = "compiled" if case == next(iter(SCHEDULES)) else "event by event"
            found.append(measured(case, way, devices, 1, work))
    for fading, coherence in (("rician", 1), ("rician", 100)):
        channel = replace(CHANNEL, deadline=10_000)
        link = make_fading_link("rate-adaptive", coherence, channel, fading)
        work = partial(simulate, channel, "async", selection="proportional-fair", link=link)
        work()
        case = f"{SELECTED[0]}, {fading}, blocks of {coherence}"
        found.append(measured(case, "compiled, tables", DEVICES, 1, work))
    return found


def losses(repeats: int) -> list[Result]:
    """First-ready devices that lose a tenth of their uplinks, event by event."""
    found = []
    for devices in SIZES:
        channel = Scenario(devices=devices, group_size=10, compute_slots=50, deadline=LOSSES_DEADLINE)
        slots = {"compute_slots": (50,) * devices, "link_slots": (1,) * devices}
        fleet = Fleet(uplink_loss=0.1, **slots)
        work = partial(simulate, channel, "async", fleet=fleet, event_by_event=True)
        found.append(measured("first-ready, losses of 10 %", "event by event", devices, repeats, work))
    return found


def failures(results: list[Result], memory: int) -> list[str]:
    """What falls short of the requirements."""
    fair = min(r.per_second for r in results if r.way == "compiled" and r.case.startswith(SELECTED[0]))
    flat = {r.devices: r.per_second for r in results if r.case.startswith("first-ready, losses")}
    ratio = flat[SIZES[-1]] / flat[SIZES[0]]
    slow = [f"{SELECTED[0]}: {fair:,.0f} uplinks/s, required {REQUIRED_SPEED:,}"]
    steep = [f"{SIZES[-1]:,} devices: {ratio:.2f} of the speed of {SIZES[0]}, required {REQUIRED_FLATNESS}"]
    found = slow * (fair < REQUIRED_SPEED) + steep * (ratio < REQUIRED_FLATNESS)
    return found + [f"peak memory {memory:,} bytes"] * (memory >= MEMORY_LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, default=3, help="repeats (default 3)")
    options = parser.parse_args()
    results = [*fading(options.repeats), *schedules(), *losses(options.repeats)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    failed = failures(results, memory)
    if options.json:
        figures = {"peak_memory_bytes": memory, "failures": failed}
        print(json.dumps({"results": [r._asdict() for r in results], **figures}, indent=2))
    else:
        shown = Table(title="Simulating fading links", caption=f"peak memory {memory / 1e6:,.0f} MB")
        for heading in ("case", "way", "devices", "uplinks", "uplinks/s"):
            shown.add_column(heading, justify="left" if heading in ("case", "way") else "right")
        for r in results:
            shown.add_row(r.case, r.way, f"{r.devices:,}", f"{r.uplinks:,}", f"{r.per_second:,.0f}")
        Console().print(shown)
    for line in failed:
        print(line, file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
