"""run_live: a live run on a channel, from the start or on after a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from slotwise.base.observer import BaseObserver
from slotwise.base.user_code import describe_error
from slotwise.learning import Task
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.quantisation import packing_of
from slotwise.live.clock import Clock, SlotClock
from slotwise.live.parts import HEADER_BYTES
from slotwise.live.protocol import Topics
from slotwise.live.server.aggregator import NotFinite
from slotwise.live.server.events import EventLog, LiveObserver, LiveView
from slotwise.live.server.inbox import Inbox, Rejection, UpdateCheck
from slotwise.live.server.live_results import Comparison, Evaluator, LiveFiles
from slotwise.live.server.live_status import LiveEnd, StatusWriter
from slotwise.live.server.monitor import RETURN_TIMEOUT, DeviceMonitor, RunSpec
from slotwise.live.server.outbox import Superseded
from slotwise.live.server.round_log import Position
from slotwise.live.server.round_trips import check_round_trips
from slotwise.live.server.rounds import RoundDriver
from slotwise.live.server.server_config import LivePlan, ServerConfig
from slotwise.live.server.slot_beacons import slots_of_run
from slotwise.live.server.state import LiveState, Snapshot
from slotwise.live.server.timings import Timings
from slotwise.live.transport import Channel
from slotwise.options import loaded
from slotwise.runs import RunFolder
from slotwise.schedule import Scheduler

END_TIMEOUT = 30.0  # seconds to tell the devices that the run is over
AFTER_LAST_ROUND = "all rounds are done: evaluating the last models, then telling the devices"
STOP_TIMEOUT = 3.0  # seconds to finish the current round when asked to stop
STOP_POLL = 0.2  # seconds between two looks at LiveObserver.wants_stop

Trouble = Literal["superseded"]


@dataclass(frozen=True)
class LiveOutcome:
    """Outcome of a live run."""

    status: LiveEnd
    state: LiveState  # the last one
    comparison: Comparison | None  # None before the first round
    trouble: Trouble | None = None  # why the run was interrupted without being asked to


async def run_live(
    folder: RunFolder,
    plan: LivePlan,
    task: Task,
    channel: Channel,
    *,
    server: ServerConfig,
    observer: BaseObserver | None = None,
    clock: Clock | None = None,
    return_timeout: float = RETURN_TIMEOUT,
    more: bool = False,
) -> LiveOutcome:
    """Run with the devices on ``channel``, from the start or from the last checkpoint in ``folder``.

    With ``more`` the devices are told to wait for another run at its end.
    """
    run = _LiveRun(folder, plan, task, server, LiveObserver.of(observer), clock or Clock(), more)
    with folder.held():
        return await run.play(channel, return_timeout)


class _LiveRun:
    """One call of `run_live`."""

    def __init__(
        self,
        folder: RunFolder,
        plan: LivePlan,
        task: Task,
        server: ServerConfig,
        observer: LiveObserver,
        clock: Clock,
        more: bool,
    ) -> None:
        config = plan.config
        self._config, self._task = config, CheckedTask.of(task)
        self._options, self._observer, self._clock, self._more = server, observer, clock, more
        self._files, self._log = LiveFiles(folder, config, server), EventLog(observer)
        self._plan, self._timeline = plan, plan.timeline
        self._ahead = slots_of_run(plan, self._task, server)
        self._saved = clock.now()
        self._saving: asyncio.Task[None] | None = None
        self._boundary: Snapshot | None = None  # the end of the last round
        self._trouble: Trouble | None = None

    def _scheduler(self, absent: Collection[int] = ()) -> Scheduler:
        return self._plan.scheduler(self._options.retransmission, absent)

    async def play(self, channel: Channel, return_timeout: float) -> LiveOutcome:
        self._files.describe("running")
        loaded = self._files.load(self._scheduler(), self._observer)
        state = self._state = self._first_state() if loaded is None else loaded
        self._boundary = None if loaded is None else Snapshot.of(loaded)
        state.timings = Timings(self._clock.now)
        devices, rounds = await self._connect(channel, return_timeout)
        self._evaluator = Evaluator(
            self._task,
            state,
            self._plan.due(),
            self._observer.evaluated,
            rounds.aggregator.note_bad_evaluation,
        )
        self._evaluator.note_model()
        self._observer.run_started(self._timeline, None)
        self._observer.live_started(LiveView(self._timeline, state, self._inbox, rounds, self._status))
        # Only `playing` ends by itself; if one of the others ends, it has failed.
        listening = asyncio.create_task(devices.listen())
        evaluating = asyncio.create_task(self._evaluator.run())
        reporting = asyncio.create_task(self._status.run())
        playing = asyncio.create_task(self._gather_and_play(devices, rounds, resumed=loaded is not None))
        failure: Exception | None = None
        try:
            status = await self._ending(playing, listening, evaluating, reporting)
            listening.cancel()  # messages from now on must not change the state that is saved
            if status is None:  # in the middle of a round: what counts is the round before it
                status, state = "interrupted", self._last_round()
            elif status != "interrupted":  # else models are evaluated when the run is resumed
                self._observer.notice(AFTER_LAST_ROUND)
                await self._evaluator.finish(evaluating)
                if self._plan.agent is not None:  # it ended at the deadline, in the middle of a round
                    state = replace(self._last_round(), points=state.points, reports=state.reports)
                status = "diverged" if self._evaluator.last_is_bad else status
        except Exception as error:  # of the user's rule or task, or of the channel
            failure, status, state = error, "interrupted", self._last_round()
        finally:
            # Cancel them until they end: the MQTT library may lose a cancellation that comes with an answer.
            tasks: list[asyncio.Task[Any]] = [listening, evaluating, reporting, playing]
            while unfinished := [task for task in tasks if not task.done()]:
                for task in unfinished:
                    task.cancel()
                await self._clock.wait(unfinished, STOP_POLL)
        if failure is not None:
            with suppress(Exception):  # if saving fails too, there is still the last checkpoint
                await self._close(state, status, error=describe_error(failure))
            raise failure
        # Save first, then tell the devices. If the server dies in between, `resume_live` finds a finished run
        # and tells them; the other way round the devices would be gone from a run that is not finished.
        # Devices of an interrupted run are not told: they wait for the server.
        outcome = await self._close(state, status)
        if status != "interrupted" and not _is_superseded(listening):
            await self._end(devices)
        return outcome

    # Beginning

    def _first_state(self) -> LiveState:
        self._files.log.go_back(Position())
        return LiveState(self._scheduler(), models={0: self._task.initial_model()}, log=self._files.log)

    async def _connect(self, channel: Channel, return_timeout: float) -> tuple[DeviceMonitor, RoundDriver]:
        config, options, run, plan = self._config, self._options, self._files.run_id, self._plan
        topics, devices = Topics(options.name), config.channel.devices
        _, fleet, link = config.ready_parts()
        ahead = self._ahead
        spec = RunSpec(
            ahead=ahead,
            run=run,
            rounds=self._timeline.rounds,
            agent=plan.agent,
            group_size=config.channel.group_size,
            deadline=None if plan.agent is None else config.deadline,
            fleet=fleet,
            link=link,
            aggregation=loaded(config.rule),
            clip_norm=options.clip_norm,
            clip_key=self._files.key,
            sample_count=self._task.sample_count,
            update_bits=self._task.update_bits,
            sending_joules=config.sending_joules(),
            timeout=options.timeout,
            longest_training=options.longest_training,
            cool_down=options.cool_down,
            return_timeout=return_timeout,
            part_bytes=1024 * options.packet_kib - HEADER_BYTES,
            announcement={
                "devices": str(devices),
                "parameters": json.dumps(plan.options_for_devices()),
                "status": "1",  # devices may report their own status
                **({"losses": "1"} if plan.wants_losses else {}),
                **({} if ahead is None else {"slots": ahead.layout.timing.field()}),
            },
        )
        updates = UpdateCheck(self._task.size, packing_of(self._task))
        self._inbox = inbox = Inbox(
            topics,
            run,
            devices,
            self._state,
            updates,
            self._clock,
            self._reject,
            self._log,
            in_slots=ahead is not None,
        )
        monitor = DeviceMonitor(spec, channel, inbox, self._observer)
        rounds = RoundDriver(monitor, SlotClock(options.slot_ms, self._clock), self._round_done)
        self._status = StatusWriter(self._files.folder.path, spec, self._state, self._observer, self._clock)
        # Before `DeviceMonitor.listen` announces the run, so that no answer of a device is missed.
        await channel.subscribe(topics.from_device("+", "+"), topics.to_all("call"))
        return monitor, rounds

    async def _gather_and_play(
        self, devices: DeviceMonitor, rounds: RoundDriver, *, resumed: bool
    ) -> LiveEnd:
        state, expected = self._state, self._config.channel.devices
        fields = {"run": self._files.run_id, "devices": expected, "rounds": self._timeline.rounds}
        self._log.info("resumed" if resumed else "announced", round=state.round, **fields)
        if resumed:
            await devices.gather_again(self._options.wait)
        else:
            await devices.gather(expected, self._options.wait)
            state.presence.take_changes()  # the Scheduler begins with those that are connected
            missing = sorted(set(range(1, expected + 1)) - state.presence.connected)
            if missing:
                self._observer.notice(f"starting without device {', '.join(map(str, missing))}")
                state.scheduler = self._scheduler(missing)
        if self._options.slot_ms is not None:
            await check_round_trips(devices, self._options.slot_ms)
        self._status.phase = "running"
        try:
            is_over = await rounds.play(self._observer.wants_stop)
        except NotFinite:
            return "diverged"
        if is_over:
            self._evaluator.note_last()
        return "finished" if is_over else "interrupted"

    # While it runs

    async def _ending(self, playing: asyncio.Task[LiveEnd], *beside: asyncio.Task[None]) -> LiveEnd | None:
        """Wait for the end; None if it comes in the middle of a round, when asked or superseded.

        The tasks ``beside`` it have no end: if one of them fails, its error is raised.
        """
        asked_at = None
        while not playing.done():
            await self._clock.wait([playing, *beside], STOP_POLL)
            if playing.done():
                break
            for task in beside:
                if _is_superseded(task):
                    self._trouble = "superseded"
                    return None
                if task.done():
                    task.result()
            # `RoundDriver.play` stops after the round. Only a round that takes too long is cut off here.
            if self._observer.wants_stop():
                asked_at = self._clock.now() if asked_at is None else asked_at
                if self._clock.now() - asked_at > STOP_TIMEOUT:
                    return None
        return playing.result()

    def _last_round(self) -> LiveState:
        """Return the state at the end of the last round, or at the start."""
        if self._boundary is None:
            return self._first_state()
        self._files.log.go_back(self._boundary.position)
        # With a new Scheduler: the current one has seen events of the round that is dropped.
        state = self._boundary.restore(self._scheduler(), self._config.channel.devices, self._files.log)
        state.reports = self._state.reports
        return state

    def _round_done(self) -> None:
        """Evaluate the model if it is due, and save a checkpoint every few seconds."""
        # Before the snapshot: a model that is not evaluated yet has to be in it.
        self._evaluator.note_model()
        self._boundary = Snapshot.of(self._state)
        self._state.timings.write(self._files.folder.path)
        self._observer.round_done(self._state.round - 1)
        self._status.log_round(self._log)
        due = self._clock.now() - self._saved >= self._options.checkpoint_every
        if (due or self._observer.wants_stop()) and (self._saving is None or self._saving.done()):
            if self._saving is not None:
                # Raises the error of the last save: a run that cannot be saved must not go on.
                self._saving.result()
            self._files.log.flush()
            # In a thread, one at a time: models may be long, and the disk slow.
            self._saving = asyncio.create_task(asyncio.to_thread(self._files.save, self._boundary))
            self._saved = self._clock.now()

    def _reject(self, rejection: Rejection) -> None:
        self._files.log_rejection(rejection)
        self._observer.message_rejected(rejection.topic, rejection.reason)

    # Ending

    async def _end(self, devices: DeviceMonitor) -> None:
        """Tell devices that the run is over, but do not wait forever for a broker that is lost now."""
        # The wait is short if a stop was requested before, and over if it is requested now.
        ending = asyncio.create_task(devices.announcement.end(more=self._more))
        stopping = self._observer.wants_stop()
        until = self._clock.now() + (STOP_TIMEOUT if stopping else END_TIMEOUT)
        while not ending.done() and self._clock.now() < until and self._observer.wants_stop() == stopping:
            await self._clock.wait([ending], STOP_POLL)
        ending.cancel()

    async def _close(self, state: LiveState, status: LiveEnd, **more: Any) -> LiveOutcome:
        """Save the last state and everything that is reported of the run."""
        if self._saving is not None:
            # Two saves at once would write and remove the same files.
            await self._saving
        layout = None if self._ahead is None else self._ahead.layout
        comparison = self._files.close(state, status, self._task, self._timeline, layout, **more)
        self._status.close(state, status)
        self._log.info("ended", status=status, round=state.round, seconds=round(state.seconds, 3))
        return LiveOutcome(status, state, comparison, self._trouble)


def _is_superseded(listening: asyncio.Task[None]) -> bool:
    """Return whether a newer server has the channel, so that this one must not end the run on it."""
    failed = listening.done() and not listening.cancelled()
    return failed and isinstance(listening.exception(), Superseded)
