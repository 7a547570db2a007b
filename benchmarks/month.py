"""A month of a live run in virtual time: month.py --days 30.

The server plays one round a second with four devices that answer at once, in memory; a second takes no
longer than its work. The table has processor time per round, the size of a checkpoint and the memory of the
process, hour by hour: none of them may grow with the rounds played. What a server does every few moments
whether there is a round or not (status file, last wills, requests to stop) is done once an hour here, or it
would hide the cost of a round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from slotwise.learning import Evaluation, TrainingStart
from slotwise.live import ServerConfig
from slotwise.live.protocol import Label, Topics, decode, encode
from slotwise.live.server import live_run, live_status, monitor
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.server_config import LivePlan
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import Arrival, Connected, Message
from slotwise.runs import RunConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/live"))
import virtual_time

HOUR, DAY = 3600, 86_400  # rounds
DEVICES, NUMBERS = 4, 10
TOPICS = Topics("month")
MEBIBYTE = 1 << 20


class Same:
    """A task whose updates are all the same: only the server is measured."""

    def initial_model(self) -> Any:
        """Return a model of some numbers."""
        return np.linspace(1, 2, NUMBERS, dtype=np.float32)

    def local_update(self, model: Any, start: TrainingStart) -> Any:
        """Return no change; the fleet does not ask, but sends what it likes."""
        del start
        return np.zeros_like(model)

    def evaluate(self, model: Any) -> Evaluation:
        """Return anything."""
        return Evaluation(float(model[0]), 0.5)

    def named_arrays(self, model: Any) -> dict[str, Any]:
        """Return the model."""
        return {"w": model}


class Fleet:
    """A channel to devices that answer at once."""

    connected, connections = True, 1

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[Arrival] = asyncio.Queue()
        self._inbox.put_nowait(Connected(1))
        self._update = np.full(NUMBERS, 1e-9, dtype=np.float32)

    async def subscribe(self, *topics: str) -> None:
        """All messages come anyway."""

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what devices send."""
        while True:
            yield await self._inbox.get()

    async def publish(self, topic: str, payload: bytes, **_: Any) -> None:
        """Answer a message as devices do."""
        kind = TOPICS.kind(topic)
        if not payload:
            return
        frame = decode(payload)
        if kind == "call":
            for device in range(1, DEVICES + 1):
                self._send(device, "here", encode(Label(frame.label.run, device), boot="b", holds=""))
        elif kind == "model":
            for text in frame.fields["receivers"].split(","):
                device, training = map(int, text.split(":"))
                label = Label(frame.label.run, device, frame.label.version, frame.label.version, training)
                self._send(device, "ready", encode(label, seconds="0.1"))
        elif kind == "grant":
            update = encode(frame.label, self._update, grant=frame.fields["grant"])
            self._send(frame.label.device, "update", update)

    def _send(self, device: int, kind: Any, frame: bytes) -> None:
        self._inbox.put_nowait(Message(TOPICS.from_device(device, kind), frame))


class Meter(LiveObserver):
    """Notes the cost of every hour."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._began = folder, time.process_time()
        self.hours: list[dict[str, float]] = []

    def round_done(self, round_number: int) -> None:
        """Measure after every hour."""
        if (round_number + 1) % HOUR:
            return
        now = time.process_time()
        files = list((self._folder / "live").glob("*.checkpoint"))
        hour = {
            "hour": (round_number + 1) // HOUR,
            "ms_per_round": round(1000 * (now - self._began) / HOUR, 4),
            "checkpoint_bytes": max((file.stat().st_size for file in files), default=0),
            "log_mib": round(_size(self._folder / "rounds.jsonl") / MEBIBYTE, 1),
            "memory_mib": round(_memory() / MEBIBYTE, 1),
        }
        self.hours.append(hour)
        if hour["hour"] in (1, 2, 6, 12) or not hour["hour"] % 24:
            print(json.dumps(hour), flush=True)
        self._began = now


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _memory() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def play(folder: Path, rounds: int) -> Meter:
    """Play a run of one round a second."""
    # Two slots a round: an uplink and a broadcast.
    options = {"devices": DEVICES, "group_size": 1, "compute_slots": 2, "deadline": 2 * rounds + 10}
    config = RunConfig.from_options({**options, "schedule": "async", "task": "month:make"})
    server = ServerConfig(name=TOPICS.name, slot_ms=500, checkpoint_every=HOUR)
    plan, meter = LivePlan.of(config), Meter(folder)
    print(f"{plan.timeline.rounds:,} rounds planned, {_memory() / MEBIBYTE:.0f} MiB before the first")
    run_folder = new_live_folder(folder, config, server)

    async def run(clock: Any) -> None:
        await live_run.run_live(run_folder, plan, Same(), Fleet(), server=server, observer=meter, clock=clock)

    seldom = ((monitor, "HOUSEKEEPING_INTERVAL"), (live_run, "STOP_POLL"), (live_status, "INTERVAL"))
    with ExitStack() as stack:
        stack.enter_context(patch.object(virtual_time, "LIMIT", math.inf))
        for module, name in seldom:
            stack.enter_context(patch.object(module, name, float(HOUR)))
        virtual_time.run_virtual(run)
    return meter


def make(config: RunConfig) -> Same:
    """Make the task."""
    del config
    return Same()


def main() -> None:
    """Play, and judge what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        meter = play(Path(place) / "run", round(arguments.days * DAY))
    first, *_, last = meter.hours
    ratio = float(np.median([h["ms_per_round"] for h in meter.hours[-24:]])) / first["ms_per_round"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sizes = {hour["checkpoint_bytes"] for hour in meter.hours}
    print(f"round cost, last day to first hour: {ratio:.2f}")
    print(f"checkpoints: {min(sizes):,} to {max(sizes):,} bytes")
    print(
        f"memory: {first['memory_mib']} MiB after an hour, {last['memory_mib']} at the end, peak {peak:.0f}"
    )


if __name__ == "__main__":
    main()
