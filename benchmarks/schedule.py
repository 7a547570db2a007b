"""How fast a schedule is simulated, beside SimPy, the process-based simulator of the Python world.

Three ways make the same timeline: the short cut for equal devices, the Scheduler driven event by event, and a
SimPy model. They are compared in one run, taking turns, at a size that SimPy can bear; every uplink of the
three must be the same. Unequal devices that are absent at times, who need events, are timed beside them,
and the short cut at a million devices.

    python benchmarks/schedule.py [--json] [--repeats 5]

Fails (exit code 1) if the short cut is less than 20 times as fast as SimPy, event by event less than 3 times,
or the peak memory reaches 1 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
import simpy
from rich.console import Console
from rich.table import Table

from slotwise import Scenario, Timeline, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import Schedule

FAULTS = {"jitter": 0.2, "uplink_loss": 0.1}
SMALL, SMALL_ROUNDS = Scenario(devices=2_000, group_size=20, compute_slots=500), 500
LARGE, LARGE_ROUNDS = Scenario(devices=1_000_000, group_size=1_000, compute_slots=50_000), 10_000
SCHEDULES: tuple[Schedule, ...] = ("async", "idfl")
REQUIRED = {"short cut": 20.0, "event by event": 3.0}
MEMORY_LIMIT = 1_000_000_000

Uplink = tuple[int, int, int, int, int]  # round, device, version, start, end


class SimPyModel:
    """Algorithms 1 and 2 as a SimPy user would write them: a process per device, one for the server.

    Devices that have finished computing queue in a PriorityStore (a heap) by finishing time, then index. The
    server takes them one at a time and, after a round's last uplink, wakes the receivers of the new model.
    """

    def __init__(self, scenario: Scenario, delay: int, rounds: int) -> None:
        self.scenario, self.delay, self.rounds = scenario, delay, rounds
        self.env = simpy.Environment()
        self.ready = simpy.PriorityStore(self.env)
        self.inbox = {n: self.env.event() for n in range(1, scenario.devices + 1)}
        self.uplinks: list[Uplink] = []

    def run(self) -> list[Uplink]:
        """All uplinks, in the order of the channel."""
        for n in self.inbox:
            self.env.process(self.device(n))
        self.env.run(until=self.env.process(self.server()))
        return self.uplinks

    def device(self, n: int) -> Generator[simpy.Event, Any, None]:
        """Receive, compute, queue for the channel, and again."""
        env, compute = self.env, self.scenario.compute_slots
        while True:
            version = yield self.inbox[n]
            yield env.timeout(compute)
            self.inbox[n] = env.event()
            self.ready.put((env.now, n, version))  # the store is unbounded: nothing to wait for

    def server(self) -> Generator[simpy.Event, Any, None]:
        """Round after round: S uplinks, then one broadcast."""
        env, link = self.env, self.scenario.link_slots
        booked = self.initial_groups()
        self.broadcast(0, booked.pop(0))
        for k in range(self.rounds):
            senders = []
            for _ in range(self.scenario.group_size):
                _, n, version = yield self.ready.get()
                start = env.now
                yield env.timeout(link)
                self.uplinks.append((k, n, version, start, env.now))
                senders.append(n)
            booked.append(sorted(senders))
            yield env.timeout(link)
            self.broadcast(k + 1, booked.pop(0))

    def initial_groups(self) -> list[list[int]]:
        """The receivers of w_0, w_1, …, w_delay."""
        devices, size = list(self.inbox), self.scenario.group_size
        starters = len(devices) - self.delay * size
        return [devices[:starters], *(devices[i : i + size] for i in range(starters, len(devices), size))]

    def broadcast(self, version: int, receivers: list[int]) -> None:
        """Wake the receivers of a model."""
        for n in receivers:
            self.inbox[n].succeed(version)


class Result(NamedTuple):
    """Device updates per second of one way, at one size, on one schedule."""

    schedule: str
    way: str
    devices: int
    rounds: int
    updates_per_second: float
    ratio: float | None


def seconds(work: Callable[[], object]) -> float:
    """CPU time: other programs on the machine count less than with the clock on the wall."""
    start = time.process_time()
    work()
    return time.process_time() - start


def uplinks(timeline: Timeline) -> np.ndarray:
    columns = (timeline.round, timeline.device, timeline.version, timeline.start, timeline.end)
    return np.stack(columns, axis=1)


def compare(schedule: Schedule, repeats: int) -> list[Result]:
    """The three ways in turn; medians, and their ratios to SimPy's."""
    delay = simulate(SMALL, schedule, rounds=1).delay
    given: dict[str, Any] = {"rounds": SMALL_ROUNDS}
    if schedule == "idfl":  # so that no delay is searched in the measured time
        given["delay"] = delay
    ways: dict[str, Callable[[], object]] = {
        "SimPy": lambda: SimPyModel(SMALL, delay, SMALL_ROUNDS).run(),
        "event by event": lambda: simulate(SMALL, schedule, event_by_event=True, **given),
        "short cut": lambda: simulate(SMALL, schedule, **given),
    }
    check_equal(SimPyModel(SMALL, delay, SMALL_ROUNDS).run(), schedule, given)
    turns = [{way: seconds(work) for way, work in ways.items()} for _ in range(repeats)]
    medians = {way: statistics.median(turn[way] for turn in turns) for way in ways}
    updates = SMALL_ROUNDS * SMALL.group_size
    return [
        Result(schedule, way, SMALL.devices, SMALL_ROUNDS, updates / spent, medians["SimPy"] / spent)
        for way, spent in medians.items()
    ]


def check_equal(expected: list[Uplink], schedule: Schedule, given: dict[str, Any]) -> None:
    for event_by_event in (False, True):
        ours = simulate(SMALL, schedule, event_by_event=event_by_event, **given)
        if not np.array_equal(uplinks(ours), expected):
            sys.exit(f"{schedule}: the schedules differ (event by event: {event_by_event})")


def unequal(schedule: Schedule, repeats: int) -> Result:
    """Devices of many speeds, with jitter, losses and absences, event by event."""
    n = SMALL.devices
    fleet = Fleet(
        compute_slots=tuple(250 + 500 * device // n for device in range(n)),
        link_slots=tuple(1 + device % 2 for device in range(n)),
        absences=tuple(Absence(device, 10 * device, 10 * device + 900) for device in range(1, n, 10)),
        **FAULTS,
    )
    turns = [
        seconds(lambda: simulate(SMALL, schedule, fleet=fleet, rounds=SMALL_ROUNDS)) for _ in range(repeats)
    ]
    updates = SMALL_ROUNDS * SMALL.group_size
    return Result(schedule, "unequal devices", n, SMALL_ROUNDS, updates / statistics.median(turns), None)


def large(schedule: Schedule, repeats: int) -> Result:
    turns = [seconds(lambda: simulate(LARGE, schedule, rounds=LARGE_ROUNDS)) for _ in range(repeats)]
    spent = statistics.median(turns)
    updates = LARGE_ROUNDS * LARGE.group_size
    return Result(schedule, "short cut", LARGE.devices, LARGE_ROUNDS, updates / spent, None)


def import_seconds(repeats: int) -> float:
    """Median CPU time of ``import slotwise`` in a fresh interpreter."""
    program = "import time; t = time.process_time(); import slotwise; print(time.process_time() - t)"
    outputs = [subprocess.check_output([sys.executable, "-c", program], text=True) for _ in range(repeats)]
    return statistics.median(map(float, outputs))


def failures(results: list[Result], memory: int) -> list[str]:
    slow = [
        f"{r.schedule}, {r.way}: {r.ratio:.1f} times SimPy, required {REQUIRED[r.way]:.0f}"
        for r in results
        if r.ratio is not None and r.ratio < REQUIRED.get(r.way, 0)
    ]
    return slow + [f"peak memory {memory:,} bytes"] * (memory >= MEMORY_LIMIT)


def table(results: list[Result], memory: int, import_time: float) -> Table:
    caption = f"peak memory {memory / 1e6:,.0f} MB; import slotwise {import_time:.3f} s of CPU time"
    shown = Table(title="Simulating a schedule", caption=caption)
    shown.add_column("schedule")
    shown.add_column("way")
    for heading in ("devices", "rounds", "updates/s", "times SimPy"):
        shown.add_column(heading, justify="right")
    for r in results:
        ratio = "" if r.ratio is None else f"{r.ratio:.1f}"
        shown.add_row(
            r.schedule, r.way, f"{r.devices:,}", f"{r.rounds:,}", f"{r.updates_per_second:,.0f}", ratio
        )
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, default=5, help="turns of the comparison (default 5)")
    options = parser.parse_args()
    import_time = import_seconds(options.repeats)
    results = [result for schedule in SCHEDULES for result in compare(schedule, options.repeats)]
    results += [unequal(schedule, options.repeats) for schedule in SCHEDULES]
    results += [large(schedule, options.repeats) for schedule in SCHEDULES]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    failed = failures(results, memory)
    if options.json:
        figures = {"peak_memory_bytes": memory, "import_seconds": import_time, "failures": failed}
        print(json.dumps({"results": [r._asdict() for r in results], **figures}, indent=2))
    else:
        Console().print(table(results, memory, import_time))
    for line in failed:
        print(line, file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
