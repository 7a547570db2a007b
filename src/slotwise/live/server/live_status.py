"""LiveStatus: the state of a live run as one value, and the file status.json that has it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from slotwise.base.errors import UserError
from slotwise.base.files import read_document, write_document
from slotwise.learning import Point
from slotwise.live.clock import Clock
from slotwise.live.device_report import DeviceReport
from slotwise.live.server.aggregator import DeviceNorms
from slotwise.live.server.disk_space import DiskSpace
from slotwise.live.server.events import EventLog, LiveObserver
from slotwise.live.server.monitor import RunSpec
from slotwise.live.server.state import LiveState

FORMAT = 1
FILE = "status.json"
INTERVAL = 2.0  # seconds between two versions of the file

NO_REPORT = DeviceReport()

LiveEnd = Literal["finished", "interrupted", "diverged"]
Phase = Literal["waiting for devices", "running", LiveEnd]
DeviceState = Literal["computing", "ready", "sending", "waiting", "absent", "excluded"]
SHORTEST_STALL = 60.0  # seconds without a round
STALL_ROUNDS = 10  # usual rounds in which none ends
HEARTBEAT = 30.0  # seconds after which the file is written again though nothing has changed
SUMMARY_INTERVAL = 10.0  # seconds between two summaries that are logged as information; others are details


@dataclass(frozen=True)
class DeviceStatus:
    """State of one device of a live run.

    Attributes:
        device: Its number.
        state: What it does: computing, ready (to send), sending, waiting (for a model), absent or excluded.
        version: Model that it computes on; None if it has no work.
        updates: Updates that were applied.
        late: Times that it was late, in slots of a fixed length.
        penalty: Penalty points; at 3 it is excluded.
        excluded_for: Seconds for which it remains excluded.
        clipped: Updates that were scaled down.
        last_norm: Norm of its last update, as it was sent; 0 before the first.
        mean_norm: Mean of the norms.
        largest_norm: Largest of the norms.
        report: What it says about itself.
    """

    device: int
    state: DeviceState
    version: int | None
    updates: int
    late: int
    penalty: float
    excluded_for: float
    clipped: int
    last_norm: float
    mean_norm: float
    largest_norm: float
    report: DeviceReport = NO_REPORT


@dataclass(frozen=True)
class LiveStatus:
    """The state of a live run.

    Attributes:
        run: Identifier of the run.
        time: When this was written: UTC, ISO 8601.
        phase: What the server does: waiting for devices, running, finished, interrupted or diverged.
        round: Completed rounds.
        rounds: Planned rounds.
        slot: The last slot in which something happened.
        seconds: Time at which the last round was complete, from the start.
        updates: Updates that were applied.
        lost: Uplinks without a good update.
        connected: Number of connected devices.
        excluded: Number of excluded devices.
        clipped: Updates that were scaled down.
        rollbacks: Models that repeat an earlier one, because those between were bad.
        evaluation: The last evaluation, by column of history.csv; None before the first.
        rejected: Rejected messages by reason.
        devices: All devices, in order.
    """

    run: str
    time: str
    phase: Phase
    round: int
    rounds: int
    slot: int
    seconds: float
    updates: int
    lost: int
    connected: int
    excluded: int
    clipped: int
    rollbacks: int
    evaluation: Mapping[str, Any] | None
    rejected: Mapping[str, int]
    devices: tuple[DeviceStatus, ...]

    @classmethod
    def of(cls, state: LiveState, spec: RunSpec, phase: Phase) -> LiveStatus:
        """Return the status of a run."""
        points: list[Point] = state.points
        norms, late = state.health.norms.values(), state.log.late
        return cls(
            run=spec.run,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            phase=phase,
            round=state.round,
            rounds=spec.rounds,
            slot=state.slot,
            seconds=state.seconds,
            updates=sum(state.assignments.delivered.values()),
            lost=state.log.lost,
            connected=len(state.presence.connected),
            excluded=len(state.penalties.excluded),
            clipped=sum(device.clipped for device in norms),
            rollbacks=len(state.health.rollbacks),
            evaluation={**points[-1]._asdict(), "metrics": dict(points[-1].metrics)} if points else None,
            rejected=dict(state.rejected),
            devices=tuple(_device(state, n, late[n], spec) for n in range(1, spec.fleet.devices + 1)),
        )

    @classmethod
    def read(cls, path: Path | str) -> LiveStatus:
        """Read status.json in the folder of a live run.

        Raises:
            UserError: there is none, or it is damaged.
        """
        file = Path(path) / FILE
        document = read_document(file, FORMAT, *cls.__dataclass_fields__)
        del document["format"]
        try:
            for device in document["devices"]:
                device["report"] = DeviceReport(**device.get("report", {}))
            document["devices"] = tuple(DeviceStatus(**device) for device in document["devices"])
            return cls(**document)
        except TypeError:
            raise UserError(f"{file}: written by another version") from None

    def write(self, folder: Path | str) -> None:
        """Write status.json in the folder of the run."""
        write_document(Path(folder) / FILE, {"format": FORMAT, **asdict(self)})


def _device(state: LiveState, number: int, late: int, spec: RunSpec) -> DeviceStatus:
    norms, work = state.health.norms.get(number, DeviceNorms()), state.assignments.work.get(number)
    excluded_for = state.penalties.seconds_left(number, spec.seconds_per_point)
    return DeviceStatus(
        device=number,
        state=_state_of(state, number),
        version=None if work is None else work.version,
        updates=state.assignments.delivered[number],
        late=late,
        penalty=round(state.penalties.points.get(number, 0.0), 3),
        excluded_for=round(excluded_for, 1) if number in state.penalties.excluded else 0.0,
        clipped=norms.clipped,
        last_norm=norms.last,
        mean_norm=norms.mean,
        largest_norm=norms.largest,
        report=state.reports.get(number, NO_REPORT),
    )


def _state_of(state: LiveState, number: int) -> DeviceState:
    if number in state.penalties.excluded:
        return "excluded"
    if number not in state.presence.connected:
        return "absent"
    if state.grant.for_device(number) is not None:
        return "sending"
    if number not in state.assignments.work:
        return "waiting"
    return "ready" if state.assignments.is_ready(number) else "computing"


class Stalls:
    """Notices that a running run makes no progress: no device is connected, or no round ends for long."""

    def __init__(self, state: LiveState, clock: Clock) -> None:
        self._state, self._clock, self.running = state, clock, False
        self._round, self._since = -1, clock.now()
        self._logged = False

    def seconds(self) -> float:
        """Return how long no round has ended, if that is a stall; otherwise 0."""
        now, log = self._clock.now(), self._state.log
        if not self.running or log.rounds != self._round:
            self._round, self._since = log.rounds, now
        waited = now - self._since
        alone = not self._state.presence.connected
        return waited if waited > (SHORTEST_STALL if alone else self._longest()) else 0.0

    def _longest(self) -> float:
        """Return the seconds without a round that are usual."""
        recent = self._state.log.recent
        if len(recent) < 2:
            return SHORTEST_STALL * STALL_ROUNDS
        usual = (recent[-1][1].seconds - recent[0][1].seconds) / (len(recent) - 1)
        return max(SHORTEST_STALL, STALL_ROUNDS * usual)

    def log_to(self, log: EventLog) -> None:
        """Report that a stall has begun or ended."""
        seconds = self.seconds()
        if seconds and not self._logged:
            connected = len(self._state.presence.connected)
            log.warning("stalled", round=self._round, seconds=round(seconds, 1), connected=connected)
        elif self._logged and not seconds:
            log.warning("progresses", round=self._round)
        self._logged = bool(seconds)


class StatusWriter:
    """Writes the status of a run when it changes, and now and then, so that its age shows a dead server."""

    def __init__(
        self, folder: Path, spec: RunSpec, state: LiveState, observer: LiveObserver, clock: Clock
    ) -> None:
        self._folder, self._spec, self._state = folder, spec, state
        self._observer, self._clock = observer, clock
        self.phase: Phase = "waiting for devices"
        self._summarised: float | None = None
        self._writing, self._closed = threading.Lock(), False
        self.stalls, self._log = Stalls(state, clock), EventLog(observer)
        self._space = DiskSpace(folder)

    async def run(self) -> None:
        """Write the file again and again, without end."""
        written: LiveStatus | None = None
        wrote = -HEARTBEAT
        while True:
            self.stalls.running = self.phase == "running"
            self.stalls.log_to(self._log)
            status, now = self._report(self._state), self._clock.now()
            if written is None or now - wrote >= HEARTBEAT or replace(status, time=written.time) != written:
                self._space.log_to(self._log)
                await asyncio.to_thread(self._write, status)
                written, wrote = status, now
            await self._clock.sleep(INTERVAL)

    def close(self, state: LiveState, phase: Phase) -> None:
        """Write the last status."""
        self.phase = phase
        # Cancelling `run` does not end the thread of its last write: wait if it writes, and stop it if it has
        # yet to begin.
        with self._writing:
            self._closed = True
        self._report(state).write(self._folder)

    def _write(self, status: LiveStatus) -> None:
        with self._writing:
            if not self._closed:
                status.write(self._folder)

    def _report(self, state: LiveState) -> LiveStatus:
        status = self.status(state)
        self._observer.status_changed(status)
        return status

    def status(self, state: LiveState | None = None) -> LiveStatus:
        """Return the status, by default of the state as it is."""
        return LiveStatus.of(self._state if state is None else state, self._spec, self.phase)

    def log_round(self, log: EventLog) -> None:
        """Log a summary of the last round: every few seconds, and the first and the last, as information."""
        state, now = self._state, self._clock.now()
        ended = state.round == self._spec.rounds
        due = self._summarised is None or ended or now - self._summarised >= SUMMARY_INTERVAL
        if due:
            self._summarised = now
        last = state.points[-1] if state.points else None
        (log.info if due else log.debug)(
            "round",
            round=state.round,
            rounds=self._spec.rounds,
            slot=state.slot,
            connected=len(state.presence.connected),
            updates=sum(state.assignments.delivered.values()),
            lost=state.log.lost,
            loss=None if last is None else last.loss,
        )
