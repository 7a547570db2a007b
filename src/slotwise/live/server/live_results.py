"""Results of a live run: evaluated models, the comparison of plan and measurement, and the run folder."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from math import isfinite
from typing import Any

from slotwise.base.files import write_atomically, write_document
from slotwise.base.observer import BaseObserver
from slotwise.learning import Point, Task
from slotwise.learning.checked_task import CheckedTask
from slotwise.live.clock import Signal
from slotwise.live.server.aggregator import DeviceNorms, Rollback
from slotwise.live.server.inbox import Rejection
from slotwise.live.server.server_config import ServerConfig
from slotwise.live.server.state import LiveState, Snapshot, decode_state, encode_state
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.checkpoints import SealedFiles
from slotwise.runs.run_folder import model_sha256
from slotwise.runs.saved_run import Status
from slotwise.schedule import Scheduler, Timeline
from slotwise.schedule.costs import server_usage

LOG_LIMIT = 10 << 20  # bytes of rejections.log; further rejections are only counted


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
        totals = timeline.totals()
        return cls(*totals, totals.slots / totals.rounds, server_usage(timeline).channel_share)


@dataclass(frozen=True)
class Comparison:
    """Comparison of the plan, as far as the run went, with what was measured."""

    planned: Figures
    measured: Figures
    as_planned: int  # updates of the planned device, round and staleness
    first_difference: str | None  # description of the first update that differs
    late: dict[int, int]  # how often each device was late
    seconds: float
    rejected: dict[str, int]  # number of messages by reason
    slot_ms: float | None = None  # None if slots have no fixed length
    norms: dict[int, DeviceNorms] = field(default_factory=dict)  # of each device's updates, and clip counts
    rollbacks: tuple[Rollback, ...] = ()  # models that repeat an earlier one

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
    difference = None
    different = next((pair for pair in zip_longest(expected, actual) if pair[0] != pair[1]), None)
    if different is not None:
        round_number = next(update[0] for update in different if update is not None)
        # The last device that was late before the difference is the likely cause, but this is not checked.
        before = [entry for entry in state.late if entry.round <= round_number]
        cause = f"; device {before[-1].device} was late with its {before[-1].what}" if before else ""
        wanted, found = (
            "no device" if update is None else f"device {update[1]} with staleness {update[2]}"
            for update in different
        )
        difference = f"round {round_number}: {found} instead of {wanted}{cause}"
    return Comparison(
        Figures.of(plan),
        Figures.of(measured),
        len(set(expected) & set(actual)),
        difference,
        dict(sorted(Counter(entry.device for entry in state.late).items())),
        state.seconds,
        dict(state.rejected.most_common()),
        slot_ms,
        dict(sorted(state.health.norms.items())),
        tuple(state.health.rollbacks),
    )


def _updates(timeline: Timeline) -> list[tuple[int, int, int]]:
    """Return round, device and staleness of each update."""
    columns = (timeline.round, timeline.device, timeline.staleness)
    return list(zip(*(column.tolist() for column in columns), strict=True))


class Evaluator:
    """Evaluates the models of the rounds ``due`` in a thread of its own.

    ``evaluated`` is called with the points, ``bad`` with the models whose loss is not finite: there is no
    point for them, as in a simulation.
    """

    def __init__(
        self,
        task: Task,
        state: LiveState,
        due: Collection[int],
        evaluated: Callable[[Point], None],
        bad: Callable[[int], None],
    ) -> None:
        self._task, self._state, self._due = CheckedTask.of(task), state, due
        self._evaluated, self._bad = evaluated, bad
        self._changed = Signal()
        self._newest_bad = -1

    @property
    def last_is_bad(self) -> bool:
        """True if the newest model was evaluated and its loss is not finite."""
        return self._newest_bad == self._state.round

    def note_model(self) -> None:
        """Remember the newest model if it is to be evaluated."""
        state = self._state
        # A resumed run may have evaluated its newest model before.
        if state.round in self._due and all(point.round != state.round for point in state.points):
            state.unevaluated[state.round] = state.models[state.round]
            self._changed.notify()

    async def run(self) -> None:
        """Evaluate the remembered models, without end."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="evaluate")
        try:
            while True:
                while self._state.unevaluated:
                    # The oldest first, so that points are in the order of rounds.
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
        evaluate, model = self._task.evaluate, self._state.unevaluated[version]
        found = await asyncio.get_running_loop().run_in_executor(pool, evaluate, model)
        if not isfinite(found.loss):
            self._newest_bad = max(version, self._newest_bad)
            del self._state.unevaluated[version]
            self._changed.notify()
            self._bad(version)
            return
        slot = staleness = 0
        if version:
            slot = self._state.complete_at(version)
            uplinks = self._state.record.uplinks  # in the order of rounds
            of_round = uplinks[bisect_left(uplinks, (version - 1,)) : bisect_left(uplinks, (version,))]
            staleness = max((k - start for k, _, start, _, _ in of_round), default=0)
        point = Point(slot, version, found.loss, found.accuracy, staleness, found.metrics)
        self._state.points.append(point)
        # Kept until now: a run resumed from a checkpoint made during the evaluation has to evaluate it.
        del self._state.unevaluated[version]
        self._changed.notify()
        self._evaluated(point)


class LiveFiles:
    """Reads and writes the folder of one live run."""

    def __init__(self, folder: RunFolder, config: RunConfig, options: ServerConfig) -> None:
        self.folder, self._config, self._options = folder, config, options
        self._checkpoints = SealedFiles(folder.path / "live")
        self.run_id = str(folder.description()["live_run"])

    def load(self, scheduler: Scheduler, observer: BaseObserver) -> LiveState | None:
        """Return the state in the newest checkpoint that is not damaged, if the first model was out then."""
        devices = self._config.channel.devices
        state, damaged = self._checkpoints.load(lambda data: decode_state(data, scheduler, devices))
        if state is not None and not state.record.receivers:
            state = None
        for path in damaged:
            observer.notice(f"{path}: damaged checkpoint, skipped")
        if damaged:
            start = "the start (no checkpoint)" if state is None else f"round {state.round}"
            observer.notice(f"{self.folder.path}: resuming from {start}")
        return state

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint, and the points so far."""
        self._checkpoints.save(len(snapshot.document["broadcasts"]), encode_state(snapshot))
        self.folder.write_points(snapshot.document["points"])

    def log_rejection(self, rejection: Rejection) -> None:
        """Append a line to rejections.log."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with (self.folder.path / "rejections.log").open("a", encoding="utf-8") as log:
            if log.tell() < LOG_LIMIT:  # a flood must not fill the disk
                log.write(f"{stamp} {rejection}\n")

    def describe(self, status: Status, **more: Any) -> None:
        """Write run.json with the status of the run."""
        kept: dict[str, Any] = {"live_run": self.run_id, "live_options": self._options.kept()}
        self.folder.write_description(self._config, status, **kept, **more)

    def close(
        self, state: LiveState, status: Status, task: Task, plan: Timeline, **more: Any
    ) -> Comparison | None:
        """Save everything; run.json comes last, so that its status is true of the other files."""
        self.save(Snapshot.of(state))
        comparison = None
        model = state.models[state.round]
        self.folder.write_model(task.named_arrays(model))
        if state.round:
            measured = measured_timeline(self._config, plan, state)
            comparison = compare(plan, measured, state, self._options.slot_ms)
            write_atomically(self.folder.path / "timeline.json", measured.to_json())
            norms = {device: norms._asdict() for device, norms in comparison.norms.items()}
            write_document(self.folder.path / "live.json", {**asdict(comparison), "norms": norms})
        last = state.points[-1] if state.points else None
        self.describe(
            status,
            model_sha256=model_sha256(model),
            rounds=state.round,
            final=last._asdict() if last else None,
            seconds=round(state.seconds, 3),
            **more,
        )
        return comparison
