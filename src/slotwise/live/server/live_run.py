"""ServerConfig, the options of a live server; and run_live: a live run on a channel, and on after a crash."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal

from slotwise.errors import InputError
from slotwise.files import write_atomically
from slotwise.fleet import Fleet, Retransmission
from slotwise.learning import Task
from slotwise.learning.engine import evaluation_rounds
from slotwise.learning.quantisation import packing_of
from slotwise.learning.task import CheckedTask
from slotwise.live.clock import Clock, SlotClock
from slotwise.live.protocol import DEFAULT_NAME, Topics
from slotwise.live.server.inbox import Inbox, Rejection, UpdateCheck
from slotwise.live.server.live_results import Comparison, Evaluator, compare, measured_timeline
from slotwise.live.server.monitor import RETURN_TIMEOUT, DeviceMonitor, RunSpec
from slotwise.live.server.outbox import Superseded
from slotwise.live.server.rounds import NoDevicesLeft, NotFinite, RoundDriver
from slotwise.live.server.state import LiveState, Snapshot, decode_state, encode_state
from slotwise.live.transport import Channel
from slotwise.live.transport.broker import DEFAULT_LISTEN, listen_address
from slotwise.observer import Observer
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.checkpoints import SealedFiles
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS, check_interval
from slotwise.runs.run_folder import Status, model_sha256
from slotwise.scenario import checked
from slotwise.schedule import Scheduler, Timeline, scheduler_for
from slotwise.schedule.link import FleetLink
from slotwise.user_code import describe_error

LOG_LIMIT = 10 << 20  # bytes of rejections.log; further rejections are only counted
END_TIMEOUT = 30.0  # seconds to tell the devices that the run is over
STOP_TIMEOUT = 3.0  # seconds to finish the current round when asked to stop
STOP_POLL = 0.2  # seconds between two looks at Observer.wants_stop
SIMULATED_FAULTS = (
    *("jitter", "uplink_loss", "device_uplink_loss", "absences", "mean_present", "mean_away"),
    *("battery_joules", "device_battery_joules"),
)
KEPT = ("name", "timeout", "clip_norm", "slot_ms", "retransmission")  # options that a resumed run keeps

Trouble = Literal["superseded", "no devices left"]


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Options of a live server that do not change the plan.

    Attributes:
        name: Name of the channel on the broker; server and devices must use the same. Default: that of the
            credentials, or trial.
        listen: HOST:PORT where the embedded broker listens if no other broker is given.
        slot_ms: Milliseconds of a slot. Default: a slot lasts until its events have happened.
        wait: Seconds to wait for all devices; then the run starts with those that are connected, at least
            one. A resumed run waits 300 seconds for the devices it had.
        timeout: Seconds after which a device that still computes is asked to confirm it, and counts as
            disconnected if it does not; so does a device that does not send what it was granted.
        clip_norm: Scale down updates with a larger L2 norm than this.
        retransmission: When an update that did not arrive is sent again: next-turn, at-once, or never
            (erasure).
        checkpoint_every: Seconds between checkpoints, the most work a crash can lose; 0: after every round.
    """

    name: str = DEFAULT_NAME
    listen: str = DEFAULT_LISTEN
    slot_ms: float | None = None
    wait: float = 3600.0
    timeout: float = 60.0
    clip_norm: float | None = None
    retransmission: Retransmission = "next-turn"
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS

    def __post_init__(self) -> None:
        Topics(self.name)
        listen_address(self.listen)
        check_interval(self.checkpoint_every)
        checked("retransmission", self.retransmission, Retransmission)
        if self.slot_ms is not None and not 0 < self.slot_ms < 1e9:
            raise InputError("slot_ms", self.slot_ms, "a number of milliseconds above 0 and below a billion")
        for name in ("timeout", "wait", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise InputError(name, value, "a finite number above 0")

    def kept(self) -> dict[str, Any]:
        """Return the options that a resumed run keeps, as run.json has them."""
        return {name: getattr(self, name) for name in KEPT}


def live_plan(config: RunConfig) -> Timeline:
    """Return the plan of a live run, or raise an InputError if the configuration simulates faults."""
    options = config.options()
    for name in SIMULATED_FAULTS:
        if options[name]:
            raise InputError(name, options[name], "omitted: in a live run, faults are real")
    if config.channel.sub_channels > 1:
        raise InputError("sub_channels", config.channel.sub_channels, "1: a live server has one channel")
    if config.attackers():
        raise InputError("attack", options["attack"], "none: only a simulation has attackers")
    if config.radio.radio_link == "fixed-rate":
        raise InputError("radio_link", "fixed-rate", "rate-adaptive: in a live run, losses are real")
    plan = config.simulate()
    if config.radio.radio_link is not None and len(plan.lost):
        given, lost = config.radio.radio_give_up_slots, f"{len(plan.lost):,} uplinks would be given up"
        raise InputError("radio_give_up_slots", given, f"larger: {lost}, and in a live run losses are real")
    return plan


def live_scheduler(
    config: RunConfig, retransmission: Retransmission = "next-turn", absent: Collection[int] = ()
) -> Scheduler:
    """Return the Scheduler of the plan; the run may begin without some of the devices."""
    policy, fleet = config.policy.policy(config.seed), config.make_fleet()
    return scheduler_for(
        config.channel,
        policy,
        fleet=fleet,
        link=config.make_link(),
        retransmission=retransmission,
        absent=absent,
    )


@dataclass(frozen=True)
class LiveOutcome:
    """Outcome of a live run."""

    status: Status  # finished, interrupted or diverged
    state: LiveState  # the last one
    comparison: Comparison | None  # None before the first round
    trouble: Trouble | None = None  # why the run was interrupted without being asked to


async def run_live(
    folder: RunFolder,
    config: RunConfig,
    task: Task,
    channel: Channel,
    *,
    server: ServerConfig,
    observer: Observer | None = None,
    clock: Clock | None = None,
    return_timeout: float = RETURN_TIMEOUT,
) -> LiveOutcome:
    """Run with the devices on ``channel``, from the start or from the last checkpoint in ``folder``."""
    run = _LiveRun(folder, config, task, server, observer or Observer(), clock or Clock())
    with folder.held():
        return await run.play(channel, return_timeout)


class _LiveRun:
    """One call of `run_live`."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        task: Task,
        server: ServerConfig,
        observer: Observer,
        clock: Clock,
    ) -> None:
        self._folder, self._config, self._task = folder, config, task
        self._checkpoints = SealedFiles(folder.path / "live")
        self._options, self._observer, self._clock = server, observer, clock
        self._plan = live_plan(config)
        self._due = evaluation_rounds(self._plan, config.slots_between_evaluations)
        self._run_id = str(folder.description()["live_run"])
        self._saved = clock.now()
        self._saving: asyncio.Task[None] | None = None
        self._boundary: Snapshot | None = None  # the end of the last round
        self._trouble: Trouble | None = None

    def _scheduler(self, absent: Collection[int] = ()) -> Scheduler:
        return live_scheduler(self._config, self._options.retransmission, absent)

    async def play(self, channel: Channel, return_timeout: float) -> LiveOutcome:
        self._describe("running")
        state, resumed = self._load()
        self._state = state
        self._evaluator = Evaluator(self._task, state, self._due, self._observer.evaluated)
        self._evaluator.note_model()
        devices, rounds = await self._connect(channel, return_timeout)
        self._observer.run_started(self._plan, None)
        listening = asyncio.create_task(devices.listen())
        evaluating = asyncio.create_task(self._evaluator.run())
        playing = asyncio.create_task(self._gather_and_play(devices, rounds, resumed=resumed))
        failure: Exception | None = None
        try:
            status = await self._status(playing, listening, evaluating)
            listening.cancel()  # messages from now on must not change the state that is saved
            if status is None:  # in the middle of a round: what counts is the round before it
                status, state = "interrupted", self._last_round()
            elif status != "interrupted":  # else models are evaluated when the run is resumed
                await self._evaluator.finish(evaluating)
        except Exception as error:  # of the user's rule or task, or of the channel
            failure, status, state = error, "interrupted", self._last_round()
        finally:
            # Cancel them until they end: the MQTT library may lose a cancellation that comes with an answer.
            tasks: list[asyncio.Task[Any]] = [listening, evaluating, playing]
            while unfinished := [task for task in tasks if not task.done()]:
                for task in unfinished:
                    task.cancel()
                await self._clock.wait(unfinished, STOP_POLL)
        if failure is not None:
            with suppress(Exception):  # if saving fails too, there is still the last checkpoint
                await self._close(state, status, error=describe_error(failure))
            raise failure
        outcome = await self._close(state, status)
        if status != "interrupted" and not _is_superseded(listening):
            await self._end(devices)
        return outcome

    # Beginning

    def _load(self) -> tuple[LiveState, bool]:
        """Return the state to play from, and whether it is that of a run whose first model is out."""
        scheduler, devices = self._scheduler(), self._config.channel.devices
        state, damaged = self._checkpoints.load(lambda data: decode_state(data, scheduler, devices))
        resumed = state is not None and bool(state.record.receivers)
        if state is None or not resumed:
            state = self._first_state()
        for path in damaged:
            self._observer.notice(f"{path}: damaged checkpoint, skipped")
        if damaged:
            start = f"round {state.round}" if resumed else "the start (no checkpoint)"
            self._observer.notice(f"{self._folder.path}: resuming from {start}")
        if resumed:
            self._boundary = Snapshot.of(state)
        return state, resumed

    def _first_state(self) -> LiveState:
        return LiveState(self._scheduler(), models={0: self._task.initial_model()})

    async def _connect(self, channel: Channel, return_timeout: float) -> tuple[DeviceMonitor, RoundDriver]:
        config, options = self._config, self._options
        topics, devices = Topics(options.name), config.channel.devices
        told = {**config.options(), "task": None}  # devices take no code from the network
        spec = RunSpec(
            run=self._run_id,
            rounds=self._plan.rounds,
            fleet=config.make_fleet() or Fleet.equal(config.channel),
            link=config.make_link() or FleetLink.of(config.channel, config.make_fleet()),
            aggregation=config.rule.rule(),
            sample_count=CheckedTask.of(self._task).sample_count,
            timeout=options.timeout,
            return_timeout=return_timeout,
            announcement={"devices": str(devices), "parameters": json.dumps(told)},
        )
        updates = UpdateCheck(len(self._task.initial_model()), options.clip_norm, packing_of(self._task))
        inbox = Inbox(topics, self._run_id, devices, self._state, updates, self._clock, self._reject)
        monitor = DeviceMonitor(spec, channel, inbox, self._observer)
        rounds = RoundDriver(monitor, SlotClock(options.slot_ms, self._clock), self._round_done)
        await channel.subscribe(topics.from_device("+", "+"), topics.to_all("call"))
        return monitor, rounds

    async def _gather_and_play(self, devices: DeviceMonitor, rounds: RoundDriver, *, resumed: bool) -> Status:
        state = self._state
        if resumed:
            await devices.gather_again(self._options.wait)
        else:
            expected = self._config.channel.devices
            await devices.gather(expected, self._options.wait)
            state.presence.take_changes()  # the Scheduler begins with those that are connected
            missing = sorted(set(range(1, expected + 1)) - state.presence.connected)
            if missing:
                self._observer.notice(f"starting without device {', '.join(map(str, missing))}")
                state.scheduler = self._scheduler(missing)
        try:
            await rounds.play(self._observer.wants_stop)
        except NotFinite:
            return "diverged"
        return "finished" if state.round == self._plan.rounds else "interrupted"

    # While it runs

    async def _status(self, playing: asyncio.Task[Status], *beside: asyncio.Task[None]) -> Status | None:
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
            if self._observer.wants_stop():
                asked_at = self._clock.now() if asked_at is None else asked_at
                if self._clock.now() - asked_at > STOP_TIMEOUT:
                    return None
        try:
            return playing.result()
        except NoDevicesLeft:
            self._trouble = "no devices left"
            return None

    def _last_round(self) -> LiveState:
        """Return the state at the end of the last round, or at the start."""
        if self._boundary is None:
            return self._first_state()
        return self._boundary.restore(self._scheduler(), self._config.channel.devices)

    def _round_done(self) -> None:
        """Evaluate the model if it is due, and save a checkpoint every few seconds."""
        self._evaluator.note_model()
        self._boundary = Snapshot.of(self._state)
        self._observer.round_done(self._state.round - 1)
        due = self._clock.now() - self._saved >= self._options.checkpoint_every
        if (due or self._observer.wants_stop()) and (self._saving is None or self._saving.done()):
            if self._saving is not None:
                self._saving.result()
            # In a thread, one at a time: a long run has a long record.
            self._saving = asyncio.create_task(asyncio.to_thread(self._write, self._boundary))
            self._saved = self._clock.now()

    def _reject(self, rejection: Rejection) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with (self._folder.path / "rejections.log").open("a", encoding="utf-8") as log:
            if log.tell() < LOG_LIMIT:  # a flood must not fill the disk
                log.write(f"{stamp} {rejection}\n")
        self._observer.message_rejected(rejection.topic, rejection.reason)

    def _write(self, snapshot: Snapshot) -> None:
        self._checkpoints.save(len(snapshot.document["broadcasts"]), encode_state(snapshot))
        self._folder.write_points(snapshot.document["points"])

    # Ending

    async def _end(self, devices: DeviceMonitor) -> None:
        """Tell devices that the run is over, but do not wait forever for a broker that is lost now."""
        ending = asyncio.create_task(devices.announcement.end())
        stopping = self._observer.wants_stop()
        until = self._clock.now() + (STOP_TIMEOUT if stopping else END_TIMEOUT)
        while not ending.done() and self._clock.now() < until and self._observer.wants_stop() == stopping:
            await self._clock.wait([ending], STOP_POLL)
        ending.cancel()

    async def _close(self, state: LiveState, status: Status, **more: Any) -> LiveOutcome:
        """Save everything; run.json comes last, so that its status is true of the other files."""
        if self._saving is not None:
            await self._saving
        self._write(Snapshot.of(state))
        comparison = None
        model = state.models[state.round]
        self._folder.write_model(self._task.named_arrays(model))
        if state.round:
            measured = measured_timeline(self._config, self._plan, state)
            comparison = compare(self._plan, measured, state, self._options.slot_ms)
            write_atomically(self._folder.path / "timeline.json", measured.to_json())
            document = json.dumps(asdict(comparison), indent=2) + "\n"
            write_atomically(self._folder.path / "live.json", document)
        last = state.points[-1] if state.points else None
        self._describe(
            status,
            model_sha256=model_sha256(model),
            rounds=state.round,
            final=last._asdict() if last else None,
            seconds=round(state.seconds, 3),
            **more,
        )
        return LiveOutcome(status, state, comparison, self._trouble)

    def _describe(self, status: Status, **more: Any) -> None:
        kept: dict[str, Any] = {"live_run": self._run_id, "live_options": self._options.kept()}
        self._folder.write_description(self._config, status, **kept, **more)


def _is_superseded(listening: asyncio.Task[None]) -> bool:
    """Return whether a newer server has the channel, so that this one must not end the run on it."""
    failed = listening.done() and not listening.cancelled()
    return failed and isinstance(listening.exception(), Superseded)
