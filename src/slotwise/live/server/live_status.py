"""LiveStatus: the state of a live run as one value, for an operator, a page or a metrics endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from slotwise.errors import UserError
from slotwise.files import read_document, write_document
from slotwise.learning import Point
from slotwise.live.server.state import LiveState

FORMAT = 1
FILE = "status.json"
INTERVAL = 2.0  # seconds between two versions of the file

Phase = Literal["waiting for devices", "running", "finished", "interrupted", "diverged"]
DeviceState = Literal["computing", "ready", "sending", "waiting", "absent", "excluded"]


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
    def of(
        cls, state: LiveState, *, run: str, phase: Phase, devices: int, rounds: int, cool_down: float
    ) -> LiveStatus:
        """Return the status of a run with so many ``devices`` and planned ``rounds``."""
        points: list[Point] = state.points
        norms, late = state.health.norms.values(), Counter(entry.device for entry in state.late)
        return cls(
            run=run,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            phase=phase,
            round=state.round,
            rounds=rounds,
            slot=state.slot,
            seconds=state.seconds,
            updates=sum(state.assignments.delivered.values()),
            lost=len(state.record.lost),
            connected=len(state.presence.connected),
            excluded=len(state.penalties.excluded),
            clipped=sum(device.clipped for device in norms),
            rollbacks=len(state.health.rollbacks),
            evaluation={**points[-1]._asdict(), "metrics": dict(points[-1].metrics)} if points else None,
            rejected=dict(state.rejected),
            devices=tuple(
                _device(state, number, late[number], cool_down) for number in range(1, devices + 1)
            ),
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
            document["devices"] = tuple(DeviceStatus(**device) for device in document["devices"])
            return cls(**document)
        except TypeError:
            raise UserError(f"{file}: written by another version") from None

    def write(self, folder: Path) -> None:
        """Write status.json in the folder of the run."""
        write_document(folder / FILE, {"format": FORMAT, **asdict(self)})


def _device(state: LiveState, number: int, late: int, cool_down: float) -> DeviceStatus:
    norms, work = state.health.norms.get(number), state.assignments.work.get(number)
    return DeviceStatus(
        device=number,
        state=_state_of(state, number),
        version=None if work is None else work.version,
        updates=state.assignments.delivered[number],
        late=late,
        penalty=round(state.penalties.points.get(number, 0.0), 3),
        excluded_for=round(state.penalties.seconds_left(number, cool_down), 1)
        if number in state.penalties.excluded
        else 0.0,
        clipped=norms.clipped if norms else 0,
        last_norm=norms.last if norms else 0.0,
        mean_norm=norms.mean if norms else 0.0,
        largest_norm=norms.largest if norms else 0.0,
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
