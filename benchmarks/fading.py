"""How fast asynchronous FL over fading links is simulated, and how the cost of an uplink grows with N.

Rayleigh block fading with unequal mean SNRs, uplinks of one slot that are lost in outage, and a selection:
the compiled loop (`slotwise.schedule.fading_simulator`) beside the Scheduler driven event by event, which
must give the same timeline. And first-ready devices with losses, event by event, at growing numbers of
devices.

    python benchmarks/fading.py [--json] [--repeats 3]

Fails (exit code 1) if proportional fair at N=1,000 and T=100,000 with blocks of 10 or 100 slots is below
100,000 uplinks/s, 10,000 devices with losses are below 0.7 of the speed of 100, or the peak memory reaches
500 MB. Blocks of one slot are measured and not required: a hundred million SNRs are drawn, which decides.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from slotwise import Asynchronous, Scenario, Timeline, simulate
from slotwise.fleet import Fleet
from slotwise.fleet.chances import chances
from slotwise.schedule import SELECTIONS, Transmission

DEVICES, DEADLINE = 1_000, 100_000
COHERENCE = (1, 10, 100)  # slots; the smaller, the more draws
SELECTED = ("proportional-fair", "best-channel", "largest-age")
SIZES = (100, 1_000, 10_000)
REQUIRED_SPEED, REQUIRED_FLATNESS, MEMORY_LIMIT = 100_000, 0.7, 500_000_000


@dataclass(frozen=True)
class RayleighLink:
    """Mean SNRs from 0 to 20 dB, exponential power gains drawn for each block; lost below ``outage_db``."""

    devices: int
    coherence_slots: int
    outage_db: float = 0.0
    fixed_slots: int = 1
    update_bits: int = 1
    give_up_slots: int = 1
    planned_broadcast_slots: int = 1

    @cached_property
    def mean_db(self) -> NDArray[np.float64]:
        """Mean SNR of each device."""
        return np.linspace(20.0, 0.0, self.devices)

    @property
    def planned_slots(self) -> Sequence[int]:
        """One slot each."""
        return (1,) * self.devices

    def tables(self, first_block: int, blocks: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return SNRs, and whether an uplink arrives."""
        numbers = np.arange(self.devices, dtype=np.uint64) << np.uint64(32)
        keys = numbers[None, :] + np.arange(first_block, first_block + blocks, dtype=np.uint64)[:, None]
        snr = self.mean_db + 10.0 * np.log10(-np.log1p(-chances((0, 50), keys)) + 1e-300)
        return snr, (snr >= self.outage_db).astype(np.int64)

    def snr_db(self, slot: int) -> NDArray[np.float64]:
        """Return the SNR of every device."""
        return self.tables(slot // self.coherence_slots, 1)[0][0]

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:  # noqa: ARG002
        """Return one slot, lost in outage."""
        return Transmission(1, bool(self.snr_db(slot)[device - 1] < self.outage_db))

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:  # noqa: ARG002
        """Return one slot."""
        return 1


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
    for name in SELECTED:
        policy = Asynchronous(selection=SELECTIONS[name])
        for coherence in COHERENCE if name == SELECTED[0] else COHERENCE[1:2]:
            link, case = RayleighLink(DEVICES, coherence), f"{name}, blocks of {coherence}"
            channel = Scenario(devices=DEVICES, group_size=10, compute_slots=50, deadline=DEADLINE)
            short = replace(channel, deadline=DEADLINE // 100)
            by_event = partial(simulate, short, policy, link=link, event_by_event=True)
            if simulate(short, policy, link=link) != by_event():
                sys.exit(f"{case}: the timelines differ")
            compiled = partial(simulate, channel, policy, link=link)
            found.append(measured(case, "compiled", DEVICES, repeats, compiled))
            found.append(measured(case, "event by event", DEVICES, 1, by_event))
    return found


def losses(repeats: int) -> list[Result]:
    """First-ready devices that lose a tenth of their uplinks, event by event."""
    found = []
    for devices in SIZES:
        channel = Scenario(devices=devices, group_size=10, compute_slots=50, deadline=200_000)
        slots = {"compute_slots": (50,) * devices, "link_slots": (1,) * devices}
        fleet = Fleet(uplink_loss=0.1, **slots)
        work = partial(simulate, channel, "async", fleet=fleet, event_by_event=True)
        found.append(measured("first-ready, losses of 10 %", "event by event", devices, repeats, work))
    return found


def failures(results: list[Result], memory: int) -> list[str]:
    """What falls short of the requirements."""
    required = [f"{SELECTED[0]}, blocks of {coherence}" for coherence in COHERENCE[1:]]
    fair = min(r.per_second for r in results if r.way == "compiled" and r.case in required)
    flat = {r.devices: r.per_second for r in results if r.case.startswith("first-ready")}
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
    results = [*fading(options.repeats), *losses(options.repeats)]
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
