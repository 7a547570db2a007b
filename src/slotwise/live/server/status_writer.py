"""StatusWriter: keeps status.json up to date, and logs summaries of rounds."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

from slotwise.live.clock import Clock
from slotwise.live.server.events import EventLog, LiveObserver
from slotwise.live.server.live_status import INTERVAL, LiveStatus, Phase
from slotwise.live.server.monitor import RunSpec
from slotwise.live.server.state import LiveState

HEARTBEAT = 30.0  # seconds after which the file is written again though nothing has changed
SUMMARY_INTERVAL = 10.0  # seconds between two summaries that are logged as information; others are details


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

    async def run(self) -> None:
        """Write the file again and again, without end."""
        written: LiveStatus | None = None
        wrote = -HEARTBEAT
        while True:
            status, now = self._report(self._state), self._clock.now()
            if written is None or now - wrote >= HEARTBEAT or replace(status, time=written.time) != written:
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
        spec = self._spec
        return LiveStatus.of(
            self._state if state is None else state,
            run=spec.run,
            phase=self.phase,
            devices=spec.fleet.devices,
            rounds=spec.rounds,
            cool_down=spec.seconds_per_point,
        )

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
            lost=len(state.record.lost),
            loss=None if last is None else last.loss,
        )
