"""Results of a live run: evaluated models, the comparison of plan and measurement, and their files."""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from slotwise.files import write_atomically
from slotwise.learning import Point, Task
from slotwise.live.clock import Signal
from slotwise.live.server.inbox import Rejection
from slotwise.live.server.state import Late, LiveState, Snapshot, decode_state, encode_state
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.checkpoints import SealedFiles
from slotwise.schedule import Scheduler, Timeline

LOG_LIMIT = 10 << 20  # bytes; further rejections are only counted


@dataclass(frozen=True)
class Figures:
    """Figures of one timeline; staleness in rounds, ``channel_use`` as a share of slots."""

    rounds: int
    updates: int
    lost: int
    mean_staleness: float
    max_staleness: int
    slots: int
    slots_per_round: float
    channel_use: float

    @classmethod
    def of(cls, timeline: Timeline) -> Figures:
        """Compute the figures of a timeline."""
        lost = timeline.lost
        taken = int((timeline.end - timeline.start).sum() + (lost[:, 4] - lost[:, 3]).sum())
        taken += int((timeline.broadcast_end - timeline.broadcast_start).sum())
        return cls(
            timeline.rounds,
            len(timeline),
            len(lost),
            timeline.mean_staleness(),
            timeline.max_staleness(),
            timeline.last_slot,
            timeline.last_slot / timeline.rounds,
            taken / timeline.last_slot,
        )


@dataclass(frozen=True)
class Comparison:
    """Comparison of the plan, as far as the run went, with what was measured.

    Attributes:
        as_planned: updates of the planned device, round and staleness.
        first_difference: description of the first update that differs; None if none does.
        late: how often each device was late.
        rejected: number of rejected messages by reason.
        slot_ms: milliseconds of a slot; None if slots have no fixed length.
    """

    planned: Figures
    measured: Figures
    as_planned: int
    first_difference: str | None
    late: dict[int, int]
    seconds: float
    rejected: dict[str, int]
    slot_ms: float | None = None

    @property
    def round_ms(self) -> tuple[float | None, float]:
        """Milliseconds of a round, planned (if slots have a fixed length) and measured."""
        planned = None if self.slot_ms is None else self.slot_ms * self.planned.slots_per_round
        return planned, 1000 * self.seconds / self.measured.rounds


def measured_timeline(config: RunConfig, plan: Timeline, state: LiveState) -> Timeline:
    """Return what happened on the channel as a timeline."""
    return Timeline.of(config.channel, plan.schedule, plan.delay, state.record, plan.fleet)


def compare(plan: Timeline, measured: Timeline, state: LiveState, slot_ms: float | None = None) -> Comparison:
    """Compare what happened with the first rounds of the plan."""
    plan = plan.first(measured.rounds)
    expected, actual = _updates(plan), _updates(measured)
    different = next((pair for pair in zip_longest(expected, actual) if pair[0] != pair[1]), None)
    return Comparison(
        Figures.of(plan),
        Figures.of(measured),
        len(set(expected) & set(actual)),
        None if different is None else _described(*different, state.late),
        dict(sorted(Counter(entry.device for entry in state.late).items())),
        state.seconds,
        dict(state.rejected.most_common()),
        slot_ms,
    )


_Update = tuple[int, int, int]  # round, device, staleness


def _updates(timeline: Timeline) -> list[_Update]:
    columns = (timeline.round, timeline.device, timeline.staleness)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _described(expected: _Update | None, actual: _Update | None, late: list[Late]) -> str:
    def named(update: _Update | None) -> str:
        return "no device" if update is None else f"device {update[1]} with staleness {update[2]}"

    round_number = (expected or actual or (0, 0, 0))[0]
    before = [entry for entry in late if entry.round <= round_number]
    cause = f"; device {before[-1].device} was late with its {before[-1].what}" if before else ""
    return f"round {round_number}: {named(actual)} instead of {named(expected)}{cause}"


class Evaluator:
    """Evaluates the models of the rounds ``due`` in a thread of its own."""

    def __init__(
        self, task: Task, state: LiveState, due: Collection[int], evaluated: Callable[[Point], None]
    ) -> None:
        self._task, self._state, self._due, self._evaluated = task, state, due, evaluated
        self._changed = Signal()

    def note_model(self) -> None:
        """Remember the newest model if it is to be evaluated."""
        state = self._state
        if state.round in self._due and all(point.round != state.round for point in state.points):
            state.unevaluated[state.round] = state.models[state.round]
            self._changed.notify()

    async def run(self) -> None:
        """Evaluate the remembered models, without end."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="evaluate")
        try:
            while True:
                while self._state.unevaluated:
                    await self._evaluate(pool, min(self._state.unevaluated))
                await self._changed.next()
        finally:
            pool.shutdown(wait=False)

    async def finish(self, running: asyncio.Task[None]) -> None:
        """Wait until all models are evaluated; ``running`` is the task of `run`."""
        while self._state.unevaluated:
            await asyncio.wait([running, self._changed.next()], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()

    async def _evaluate(self, pool: ThreadPoolExecutor, version: int) -> None:
        model = self._state.unevaluated[version]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(pool, self._task.evaluate, model)
        point = _point(self._state, version, found.loss, found.accuracy)
        self._state.points.append(point)
        del self._state.unevaluated[version]
        self._changed.notify()
        self._evaluated(point)


def _point(state: LiveState, version: int, loss: float, accuracy: float) -> Point:
    if version == 0:
        return Point(0, 0, loss, accuracy, 0)
    slot = int(state.record.broadcasts[version - 1][1])
    uplinks = state.record.uplinks  # in the order of rounds
    of_round = uplinks[bisect_left(uplinks, (version - 1,)) : bisect_left(uplinks, (version,))]
    ages = [k - start for k, _, start, _, _ in of_round]
    return Point(slot, version, loss, accuracy, max(ages, default=0))


class LiveFolder:
    """A run folder with the files that only live runs have."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._states = SealedFiles(folder.path / "live")

    def load(self, scheduler: Scheduler, devices: int) -> tuple[LiveState | None, list[Path]]:
        """Return the newest intact state, if any, and the damaged files that were skipped."""
        return self._states.load(lambda data: decode_state(data, scheduler, devices))

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint and history.csv."""
        self._states.save(len(snapshot.document["broadcasts"]), encode_state(snapshot))
        self.folder.write_points(snapshot.document["points"])

    def write_results(self, timeline: Timeline, comparison: Comparison) -> None:
        """Write timeline.json and live.json."""
        write_atomically(self.folder.path / "timeline.json", timeline.to_json())
        document: dict[str, Any] = asdict(comparison)
        write_atomically(self.folder.path / "live.json", json.dumps(document, indent=2) + "\n")

    def log(self, rejection: Rejection) -> None:
        """Add a line to rejections.log, which is limited so that a flood does not fill the disk."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with (self.folder.path / "rejections.log").open("a", encoding="utf-8") as log:
            if log.tell() < LOG_LIMIT:
                log.write(f"{stamp} {rejection}\n")
