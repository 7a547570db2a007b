"""serve(folder, ...): a live run from its parameters to its folder, and on after a crash."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slotwise.fleet import Fleet
from slotwise.learning import Point, Task
from slotwise.learning.engine import evaluation_rounds
from slotwise.learning.quantisation import packing_of
from slotwise.live.call import Superseded
from slotwise.live.channel import Channel
from slotwise.live.clock import Clock, PacedClock
from slotwise.live.curve import Curve
from slotwise.live.folder import LiveFolder
from slotwise.live.mailbox import Admission, Mailbox, Rejection
from slotwise.live.plan import live_plan, scheduler_of
from slotwise.live.report import Comparison, compared, measured_timeline
from slotwise.live.saved_state import encode_state
from slotwise.live.server import Server
from slotwise.live.state import LiveState, Snapshot
from slotwise.live.terms import NobodyLeft, NotFinite, Terms
from slotwise.live.topics import TRIAL, Topics
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.runs.run_folder import Status, model_sha256

KEPT_OPTIONS = ("name", "patience", "clip_norm", "slot_ms")
LONGEST_GOODBYE = 30.0  # seconds
SECONDS_BETWEEN_LOOKS = 0.2
GRACE = 3.0  # seconds to finish the round that is on when asked to end


@dataclass(frozen=True)
class ServerOptions:
    """What the server decides and the plan does not.

    Attributes:
        name: of the channel on the broker.
        patience: seconds for which a device may stay silent before it counts as gone.
        wait: seconds to wait for all devices before starting, or going on, with those that are there.
        clip_norm: longer updates are shortened to this length.
        slot_ms: milliseconds of a slot; None is as fast as possible.
        checkpoint_every: seconds between checkpoints.
    """

    name: str = TRIAL
    patience: float = 60.0
    wait: float = 3600.0
    clip_norm: float | None = None
    slot_ms: float | None = None
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS

    def clock(self) -> Clock:
        """What a slot is."""
        return Clock() if self.slot_ms is None else PacedClock(self.slot_ms)

    def kept(self) -> dict[str, Any]:
        """Those that a resumed run keeps."""
        return {name: getattr(self, name) for name in KEPT_OPTIONS}


Trouble = Literal["superseded", "nobody left"]


class LiveWatcher:
    """Is told how a live run goes on, and asked whether to end it; this one stays silent."""

    def passed_over(self, damaged: Sequence[Path], round_number: int) -> None:
        """These checkpoints are of no use; it goes on from this round, 0 if it begins anew."""

    def waiting(self, present: int, wanted: int) -> None:
        """So many devices are there."""

    def starts_without(self, devices: Sequence[int]) -> None:
        """These have not come in time; they may join later."""

    def round_done(self, state: LiveState) -> None:
        """A round is complete."""

    def evaluated(self, point: Point) -> None:
        """A point of the curve is known."""

    def rejected(self, rejection: Rejection) -> None:
        """A message did not count."""

    def wants_stop(self) -> bool:
        """Whether to end early, with a checkpoint."""
        return False


@dataclass(frozen=True)
class LiveOutcome:
    """How a live run ended.

    Attributes:
        trouble: why it was interrupted, if nobody had asked for it: a newer server has the channel, or every
            device is out.
    """

    status: Status
    state: LiveState
    comparison: Comparison | None
    trouble: Trouble | None = None


def new_live_folder(path: Path, parameters: RunConfig, options: ServerOptions) -> RunFolder:
    """The folder of a new run, which says from its first moment on that it is a live one.

    A server that is killed in the next is resumed like any other.
    """
    return RunFolder.create(path, parameters, live_run=secrets.token_hex(8), live_options=options.kept())


async def serve(
    folder: RunFolder,
    parameters: RunConfig,
    task: Task,
    channel: Channel,
    *,
    options: ServerOptions,
    watcher: LiveWatcher | None = None,
) -> LiveOutcome:
    """Run it with the devices on ``channel``, from the start or from the folder's last checkpoint."""
    run = _LiveRun(folder, parameters, task, options, watcher or LiveWatcher())
    with folder.held():
        return await run.play(channel)


class _LiveRun:
    """One call of `serve`."""

    def __init__(
        self,
        folder: RunFolder,
        parameters: RunConfig,
        task: Task,
        options: ServerOptions,
        watcher: LiveWatcher,
    ) -> None:
        self._live, self._parameters, self._task = LiveFolder(folder), parameters, task
        self._options, self._watcher = options, watcher
        self._plan = live_plan(parameters)
        self._due = evaluation_rounds(self._plan, parameters.slots_between_evaluations)
        self._run_id = str(folder.description()["live_run"])
        self._saved = time.monotonic()
        self._saving: asyncio.Task[None] | None = None
        self._boundary: Snapshot | None = None  # the end of the last round
        self._trouble: Trouble | None = None

    async def play(self, channel: Channel) -> LiveOutcome:
        folder = self._live.folder
        folder.write_description(
            self._parameters, "running", live_run=self._run_id, live_options=self._options.kept()
        )
        model = self._task.initial_model()
        state, damaged = self._live.load(scheduler_of(self._parameters))
        resumed = state is not None and bool(state.record.receivers)
        if state is None:
            state = LiveState(scheduler_of(self._parameters), models={0: model})
        if damaged:
            self._watcher.passed_over(damaged, state.round)
        if resumed:
            self._boundary = Snapshot.of(state)
        self._curve = Curve(self._task, state, self._due, self._watcher.evaluated)
        self._curve.note()
        topics = Topics(self._options.name)
        admission = Admission(len(model), self._options.clip_norm, packing_of(self._task))
        devices = self._parameters.channel.devices
        mailbox = Mailbox(topics, self._run_id, devices, admission, self._reject)
        server = Server(self._terms(), state, channel, topics, mailbox, self._options.clock(), self)
        await channel.subscribe(topics.from_all_devices, topics.to_all("call"))
        listening = asyncio.create_task(server.listen())
        evaluating = asyncio.create_task(self._curve.follow())
        playing = asyncio.create_task(self._gather_and_play(server, mailbox, state, resumed=resumed))
        try:
            status = await self._watched(playing, listening, evaluating)
            listening.cancel()  # what is said from now on must not change the state that is saved
            if status is None:  # in the middle of a round: what counts is the round before it
                status, state = "interrupted", self._last_round()
            elif status != "interrupted":  # then what is not evaluated is saved, and evaluated when resumed
                await self._curve.done(evaluating)
        finally:
            await _ended(listening, evaluating, playing)
        outcome = await self._close(state, status)
        if status != "interrupted" and not _superseded(listening):
            await self._say_goodbye(server)
        return outcome

    async def _say_goodbye(self, server: Server) -> None:
        """Tell devices that it is over; a broker that has gone in this moment is not waited for for ever."""
        saying = asyncio.create_task(server.end())
        patient = not self._watcher.wants_stop()
        until = time.monotonic() + (LONGEST_GOODBYE if patient else GRACE)
        while not saying.done() and time.monotonic() < until and not (patient and self._watcher.wants_stop()):
            await asyncio.wait([saying], timeout=SECONDS_BETWEEN_LOOKS)
        saying.cancel()

    async def _watched(self, playing: asyncio.Task[Status], *beside: asyncio.Task[None]) -> Status | None:
        """How it ended; None if that was in the middle of a round: asked to, or by a newer server.

        What goes on beside it has no end: if one of them ends, its error is this one's.
        """
        asked_at = None
        while not playing.done():
            await asyncio.wait(
                [playing, *beside], timeout=SECONDS_BETWEEN_LOOKS, return_when=asyncio.FIRST_COMPLETED
            )
            if playing.done():
                break
            for ended in beside:
                if _superseded(ended):
                    self._trouble = "superseded"
                    return None
                if ended.done():
                    ended.result()
            if self._watcher.wants_stop():
                asked_at = asked_at or time.monotonic()
                if time.monotonic() - asked_at > GRACE:
                    return None
        try:
            return playing.result()
        except NobodyLeft:
            self._trouble = "nobody left"
            return None

    def _last_round(self) -> LiveState:
        """The state at the end of the last round; if there was none, that of the start."""
        if self._boundary is None:
            return LiveState(scheduler_of(self._parameters), models={0: self._task.initial_model()})
        return self._boundary.state(scheduler_of(self._parameters))

    async def _gather_and_play(
        self, server: Server, mailbox: Mailbox, state: LiveState, *, resumed: bool
    ) -> Status:
        if resumed:
            await server.gather_again(self._options.wait)
        else:
            await self._gather(server, mailbox, state)
        try:
            await server.play(self._watcher.wants_stop)
        except NotFinite:
            return "diverged"
        return "finished" if state.round == self._plan.rounds else "interrupted"

    async def _gather(self, server: Server, mailbox: Mailbox, state: LiveState) -> None:
        """Wait for the devices; those who are not there when it starts are absent."""
        everyone = set(mailbox.present)
        mailbox.present.clear()
        await server.gather(len(everyone), self._options.wait)
        mailbox.unplanned.clear()
        missing = sorted(everyone - mailbox.present)
        if missing:
            self._watcher.starts_without(missing)
            state.scheduler = scheduler_of(self._parameters, missing)

    def _terms(self) -> Terms:
        parameters = self._parameters
        options = {**parameters.options(), "task": None}  # code is never taken from a network
        return Terms(
            run=self._run_id,
            rounds=self._plan.rounds,
            fleet=parameters.make_fleet() or Fleet.equal(parameters.channel),
            broadcast_slots=parameters.channel.link_slots,
            aggregation=parameters.rule.rule(),
            patience=self._options.patience,
            announcement={"devices": str(parameters.channel.devices), "parameters": json.dumps(options)},
        )

    # What the server tells

    def waiting(self, present: int, wanted: int) -> None:
        """So many devices are there."""
        self._watcher.waiting(present, wanted)

    def round_done(self, state: LiveState) -> None:
        """Note what is to be evaluated, save the state every few seconds, pass it on."""
        self._curve.note()
        self._boundary = Snapshot.of(state)
        self._watcher.round_done(state)
        if time.monotonic() - self._saved >= self._options.checkpoint_every or self._watcher.wants_stop():
            self._save(self._boundary)

    def _reject(self, rejection: Rejection) -> None:
        self._live.log(rejection)
        self._watcher.rejected(rejection)

    # Saving

    def _save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint beside the run; one at a time."""
        if self._saving is not None:
            if not self._saving.done():
                return
            self._saving.result()
        self._saving = asyncio.create_task(asyncio.to_thread(self._write, snapshot))
        self._saved = time.monotonic()

    def _write(self, snapshot: Snapshot) -> None:
        """Called in a thread: a long run has a long record."""
        state = snapshot.values()
        self._live.states.save(state.round, encode_state(snapshot))
        self._live.folder.write_points(state.points)

    async def _close(self, state: LiveState, status: Status) -> LiveOutcome:
        """Save everything; run.json comes last, so that its status speaks of files that are there."""
        if self._saving is not None:
            await self._saving
        self._write(Snapshot.of(state))
        folder, comparison = self._live.folder, None
        model = state.models[state.round]
        folder.write_model(self._task.named_arrays(model))
        if state.round:
            measured = measured_timeline(self._parameters, self._plan, state)
            comparison = compared(self._plan, measured, state, self._options.slot_ms)
            self._live.write_results(measured, comparison)
        last = state.points[-1] if state.points else None
        folder.write_description(
            self._parameters,
            status,
            live_run=self._run_id,
            live_options=self._options.kept(),
            model_sha256=model_sha256(model),
            rounds=state.round,
            final=last._asdict() if last else None,
            seconds=round(state.seconds, 3),
        )
        return LiveOutcome(status, state, comparison, self._trouble)


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel until they end: the MQTT library may miss a cancellation that comes with an answer."""
    while going_on := [task for task in tasks if not task.done()]:
        for task in going_on:
            task.cancel()
        await asyncio.wait(going_on, timeout=SECONDS_BETWEEN_LOOKS)


def _superseded(listening: asyncio.Task[None]) -> bool:
    """Whether a newer server has the channel, so that it is not this one's to say that it is over."""
    heard = listening.done() and not listening.cancelled()
    return heard and isinstance(listening.exception(), Superseded)
