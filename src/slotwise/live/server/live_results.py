"""Results of a live run: evaluated models, the comparison of plan and measurement, and the run folder."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise, zip_longest
from math import isfinite
from typing import Any, NamedTuple

from slotwise.aggregation import Vector
from slotwise.base.daemon_threads import DaemonThreads
from slotwise.base.files import appending, write_atomically, write_document
from slotwise.base.observer import BaseObserver
from slotwise.learning import Point, Task
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.course import has_multiple
from slotwise.live.clock import Signal
from slotwise.live.server.aggregator import DeviceNorms, Rollback
from slotwise.live.server.inbox import Rejection
from slotwise.live.server.round_log import FILE as ROUNDS_FILE
from slotwise.live.server.round_log import Late, Round, RoundLog
from slotwise.live.server.server_config import ServerConfig, clip_key
from slotwise.live.server.state import Completion, LiveState, Snapshot, decode_state, encode_state
from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.live.slots.slot_use import FILE as SLOTS_FILE
from slotwise.live.slots.slot_use import SlotUse, layout_figures, use_figures
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.checkpoints import SealedFiles
from slotwise.runs.run_folder import model_sha256
from slotwise.runs.saved_run import Status
from slotwise.scenario import Scenario
from slotwise.schedule import Record, Scheduler, Timeline
from slotwise.schedule.costs import ServerUsage
from slotwise.schedule.timeline import round_as_dict

BLOCK = 10_000  # rounds of the plan that are compared at once
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
        totals, lost = timeline.totals(), timeline.lost
        # On one channel nothing overlaps, so that lengths can be added: a timeline may have millions of rows.
        sending = int(timeline.broadcast_end.sum() - timeline.broadcast_start.sum())
        receiving = int(timeline.end.sum() - timeline.start.sum() + (lost[:, 4] - lost[:, 3]).sum())
        usage = ServerUsage(sending, receiving, totals.slots - sending - receiving)
        return cls(*totals, totals.slots / totals.rounds, usage.channel_share)


@dataclass(frozen=True)
class Comparison:
    """Comparison of the plan, as far as the run went, with what was measured.

    The plan of a schedule that was decided by what is learned is the one without that.
    """

    planned: Figures
    measured: Figures
    as_planned: int | None  # of the planned device, round and staleness; None: not planned
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


def measured_scenario(config: RunConfig, state: LiveState) -> Scenario:
    """Return the scenario with the group sizes that were decided."""
    sizes = tuple(state.group_sizes)
    return replace(config.channel, group_size_changes=sizes) if sizes else config.channel


def measured_timeline(config: RunConfig, plan: Timeline, state: LiveState) -> Timeline:
    """Return what happened on the channel as a timeline."""
    return Timeline.of(measured_scenario(config, state), plan.schedule, plan.delay, state.record, plan.fleet)


def compare(
    plan: Timeline, state: LiveState, slot_ms: float | None = None, is_decided: bool = False
) -> Comparison:
    """Compare what happened with the first rounds of the plan, reading the log once."""
    plan = plan if plan.rounds <= state.round else plan.first(state.round)
    tally, as_planned, difference, late = Tally(), 0, None, None
    for k, (one, expected) in enumerate(zip_longest(state.log, _updates(plan))):
        tally.add(one)
        if is_decided:
            continue
        actual = [(device, k - version) for k, device, version, _, _ in one.uplinks]
        as_planned += len(set(expected) & set(actual))
        if difference is None:
            # The last device that was late before the difference is the likely cause, which is not checked.
            late = one.late[-1] if one.late else late
            if actual != expected:
                difference = _difference(k, expected, actual, late)
    return Comparison(
        Figures.of(plan),
        tally.figures(),
        None if is_decided else as_planned,
        difference,
        dict(sorted(state.log.late.items())),
        state.seconds,
        dict(state.rejected.most_common()),
        slot_ms,
        dict(sorted(state.health.norms.items())),
        tuple(state.health.rollbacks),
    )


Update = tuple[int, int]  # device and staleness


def _updates(timeline: Timeline) -> Iterator[list[Update]]:
    """Yield the updates of each round; a part of the timeline at a time is converted to Python's numbers."""
    offsets, staleness = timeline.round_offsets, timeline.staleness
    for first in range(0, timeline.rounds, BLOCK):
        ends = offsets[first : first + BLOCK + 1].tolist()
        rows = slice(ends[0], ends[-1])
        updates = list(zip(timeline.device[rows].tolist(), staleness[rows].tolist(), strict=True))
        yield from (updates[start - ends[0] : end - ends[0]] for start, end in pairwise(ends))


def _difference(k: int, expected: list[Update], actual: list[Update], late: Late | None) -> str:
    """Describe the first update of a round that is not as planned."""
    pair = next(pair for pair in zip_longest(actual, expected) if pair[0] != pair[1])
    found, wanted = (
        "no device" if update is None else f"device {update[0]} with staleness {update[1]}" for update in pair
    )
    cause = "" if late is None else f"; device {late.device} was late with its {late.what}"
    return f"round {k}: {found} instead of {wanted}{cause}"


class Tally:
    """Adds up the figures of rounds, one after another."""

    def __init__(self) -> None:
        self._rounds = self._updates = self._lost = self._staleness = self._oldest = 0
        self._sending = self._receiving = self._end = 0

    def add(self, one: Round) -> None:
        """Count a completed round."""
        self._rounds, self._updates = self._rounds + 1, self._updates + len(one.uplinks)
        self._lost += len(one.lost)
        self._staleness += sum(k - version for k, _, version, _, _ in one.uplinks)
        self._oldest = max(self._oldest, one.max_staleness)
        self._receiving += sum(end - start for *_, start, end in (*one.uplinks, *one.lost))
        self._sending, self._end = self._sending + one.end - one.start, one.end

    def figures(self) -> Figures:
        """Return the figures of all rounds."""
        mean = self._staleness / self._updates if self._updates else 0.0
        idle = self._end - self._sending - self._receiving
        share = ServerUsage(self._sending, self._receiving, idle).channel_share
        slots = (self._end, self._end / self._rounds, share)
        return Figures(self._rounds, self._updates, self._lost, mean, self._oldest, *slots)


def timeline_text(config: RunConfig, plan: Timeline, state: LiveState) -> Iterator[str]:
    """Yield the text of timeline.json, what `Timeline.to_json` would return of all rounds."""
    log, scenario = state.log, measured_scenario(config, state)
    empty = Record([], [], [], [[*(log.starters or ())]])
    head = Timeline.of(scenario, plan.schedule, plan.delay, empty, plan.fleet).to_json()
    yield head.removesuffix("]}")
    for k, one in enumerate(log):
        entry = round_as_dict(k, one.uplinks, one.lost, (one.start, one.end), one.receivers)
        yield (", " if k else "") + json.dumps(entry)
    yield "]}"


def slots_text(layout: SlotLayout, log: RoundLog) -> Iterator[str]:
    """Yield the text of slots.json: the slots that were granted, and what became of them."""

    def uses() -> Iterator[SlotUse]:
        return (use for one in log for use in one.uses)

    head = {**layout_figures(layout), "rounds": log.rounds, **use_figures(uses())}
    yield json.dumps({**head, "columns": SlotUse._fields}, indent=2).removesuffix("\n}")
    yield ',\n  "uses": ['
    for number, use in enumerate(uses()):
        yield (",\n    " if number else "\n    ") + json.dumps(use)
    yield "]\n}\n"


class _Model(NamedTuple):
    """A model, and when it was complete."""

    version: int
    weights: Vector
    completion: Completion


class Evaluator:
    """Evaluates models in a thread of its own: those ``due``, or the newest at each multiple of ``due``.

    Whether a model is the newest at a multiple is known when the next one is there. ``evaluated`` is called
    with the points, ``bad`` with the models whose loss is not finite: there is no point for them, as in a
    simulation.
    """

    def __init__(
        self,
        task: Task,
        state: LiveState,
        due: Collection[int] | int,
        evaluated: Callable[[Point], None],
        bad: Callable[[int], None],
    ) -> None:
        self._task, self._state, self._due = CheckedTask.of(task), state, due
        self._evaluated, self._bad = evaluated, bad
        self._changed = Signal()
        self._newest_bad = -1
        self._newest: _Model | None = None

    @property
    def last_is_bad(self) -> bool:
        """True if the newest model was evaluated and its loss is not finite."""
        return self._newest_bad == self._state.round

    def note_model(self) -> None:
        """Remember the newest model if it is to be evaluated, or the one before if that is known only now."""
        state, before, due = self._state, self._newest, self._due
        done = state.completions[state.round] if state.round else Completion()
        self._newest = newest = _Model(state.round, state.models[state.round], done)
        if not isinstance(due, int):
            if newest.version in due:
                self._remember(newest)
        elif before is not None and has_multiple(before.completion.slot, done.slot, due):
            self._remember(before)

    def note_last(self) -> None:
        """Remember the newest model: there will be no other."""
        if self._newest is not None:
            self._remember(self._newest)

    def _remember(self, model: _Model) -> None:
        version, weights, completion = model
        # A resumed run may have evaluated its newest model before.
        if all(point.round != version for point in self._state.points):
            self._state.unevaluated[version] = weights
            self._state.completions[version] = completion
            self._changed.notify()

    async def run(self) -> None:
        """Evaluate the remembered models, without end."""
        pool = DaemonThreads(1, "evaluate")  # one that never ends does not keep the server alive
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

    async def _evaluate(self, pool: DaemonThreads, version: int) -> None:
        evaluate, model = self._task.evaluate, self._state.unevaluated[version]
        found = await asyncio.get_running_loop().run_in_executor(pool, evaluate, model)
        if not isfinite(found.loss):
            self._newest_bad = max(version, self._newest_bad)
            del self._state.unevaluated[version]
            self._changed.notify()
            self._bad(version)
            return
        # Checkpoints of earlier versions have none of the first model.
        slot, staleness = self._state.completions.get(version, Completion())
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
        self.log = RoundLog(folder.path / ROUNDS_FILE)
        description = folder.description()
        self.run_id, self.key = str(description["live_run"]), clip_key(description)

    def load(self, scheduler: Scheduler, observer: BaseObserver) -> LiveState | None:
        """Return the state in the newest checkpoint that is not damaged, if the first model was out then."""
        devices = self._config.channel.devices
        state, damaged = self._checkpoints.load(lambda data: decode_state(data, scheduler, devices, self.log))
        if state is not None and state.log.starters is None:
            state = None
        for path in damaged:
            observer.notice(f"{path}: damaged checkpoint, skipped")
        if damaged:
            start = "the start (no checkpoint)" if state is None else f"round {state.round}"
            observer.notice(f"{self.folder.path}: resuming from {start}")
        return state

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint, and the points so far; the log must have been flushed up to it."""
        self.log.sync()
        self._checkpoints.save(snapshot.position.rounds, encode_state(snapshot))
        self.folder.write_points(snapshot.document["points"])

    def log_rejection(self, rejection: Rejection) -> None:
        """Append a line to rejections.log."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with appending(self.folder.path / "rejections.log") as log:
            if log.tell() < LOG_LIMIT:  # a flood must not fill the disk
                log.write(f"{stamp} {rejection}\n")

    def describe(self, status: Status, **more: Any) -> None:
        """Write run.json with the status of the run."""
        kept: dict[str, Any] = {
            "live_run": self.run_id,
            "live_key": self.key,
            "live_options": self._options.kept(),
        }
        self.folder.write_description(self._config, status, **kept, **more)

    def close(
        self,
        state: LiveState,
        status: Status,
        task: Task,
        plan: Timeline,
        layout: SlotLayout | None = None,
        **more: Any,
    ) -> Comparison | None:
        """Save everything; run.json comes last, so that its status is true of the other files.

        With a ``layout`` there is a record of the slots that were used.
        """
        self.log.flush()
        self.save(Snapshot.of(state))
        comparison = None
        model = state.models[state.round]
        self.folder.write_model(task.named_arrays(model))
        if state.round:
            comparison = compare(plan, state, self._options.slot_ms, self._config.decides_by_learning)
            write_atomically(self.folder.path / "timeline.json", timeline_text(self._config, plan, state))
            if layout is not None:
                write_atomically(self.folder.path / SLOTS_FILE, slots_text(layout, state.log))
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
