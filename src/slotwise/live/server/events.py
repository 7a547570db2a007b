"""Events of a live run: what its observers are told and may read, and the lines of its structured log."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from slotwise.base.observer import BaseObserver
from slotwise.learning import Point
from slotwise.runs import Observer
from slotwise.schedule import Timeline
from slotwise.schedule.timeline import Uplink

if TYPE_CHECKING:
    from slotwise.live.server.campaign_run import CampaignStatus
    from slotwise.live.server.inbox import Inbox
    from slotwise.live.server.live_status import LiveStatus, StatusWriter
    from slotwise.live.server.rounds import RoundDriver
    from slotwise.live.server.state import LiveState

REPEATED_INTERVAL = 60.0  # seconds between two lines about the same of a device
MAX_DIFFERENT = 1000  # rejections that are logged; rejections.log has the others

Level = Literal["debug", "info", "warning", "error"]


class LogEvent(NamedTuple):
    """Something that has happened in a live run: its level and name, and numbers or texts by name."""

    level: Level
    event: str
    fields: Mapping[str, Any]

    def is_at_least(self, level: Level) -> bool:
        """Return whether the event is as important as ``level`` or more."""
        order = get_args(Level)
        return order.index(self.level) >= order.index(level)

    def json(self, moment: datetime | None = None) -> str:
        """Return one line of JSON."""
        document = {"time": _stamp(moment), "level": self.level, "event": self.event, **self.fields}
        finite = {n: None if isinstance(v, float) and not isfinite(v) else v for n, v in document.items()}
        return json.dumps(finite, allow_nan=False, default=str)

    def text(self, moment: datetime | None = None) -> str:
        """Return one line for a person, with the fields as name=value."""
        pairs = (f"{name}={_text(value)}" for name, value in self.fields.items())
        return " ".join([_stamp(moment), self.level, self.event, *pairs])


def _stamp(moment: datetime | None) -> str:
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if plain and text else json.dumps(text)


class LiveObserver(Observer):
    """Callbacks of a live run, besides those of a run; it has no folder to open before its first device."""

    def devices_connected(self, present: int, expected: int) -> None:
        """``present`` of the ``expected`` devices are connected; the server waits for the others."""

    def message_rejected(self, topic: str, reason: str) -> None:
        """A message of a device was rejected."""

    def logged(self, event: LogEvent) -> None:
        """Something that an operator of a live server may want to know has happened."""

    def status_changed(self, status: LiveStatus) -> None:
        """The state of a live run, every few seconds; status.json in its folder has the same."""

    def live_started(self, view: LiveView) -> None:
        """A live run begins; ``view`` may be read in its event loop at any time."""

    def campaign_changed(self, status: CampaignStatus) -> None:
        """A campaign begins its next run, or waits for it."""


class EventLog:
    """Passes events to an observer; of equal ones of a device only the first, or one now and then."""

    def __init__(self, observer: BaseObserver | None = None) -> None:
        self._observer = LiveObserver.of(observer)
        self._rejections: set[tuple[str, str]] = set()
        self._repeated: dict[tuple[str, int], tuple[float, int]] = {}  # when logged, and how many since

    def debug(self, event: str, **fields: Any) -> None:
        """Report a detail that only helps to find errors."""
        self._observer.logged(LogEvent("debug", event, fields))

    def info(self, event: str, **fields: Any) -> None:
        """Report what an operator may want to follow."""
        self._observer.logged(LogEvent("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        """Report what an operator should look at."""
        self._observer.logged(LogEvent("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        """Report what stops the run or a device."""
        self._observer.logged(LogEvent("error", event, fields))

    def repeated(self, level: Level, event: str, now: float, *, device: int, **fields: Any) -> None:
        """Report what a device does again and again: the first time, then once a minute with the number."""
        logged, unlogged = self._repeated.get((event, device), (-REPEATED_INTERVAL, 0))
        if now - logged < REPEATED_INTERVAL:
            self._repeated[event, device] = logged, unlogged + 1
            return
        self._repeated[event, device] = now, 0
        more = {"times": unlogged + 1} if unlogged else {}
        self._observer.logged(LogEvent(level, event, {"device": device, **fields, **more}))

    def rejected(self, topic: str, reason: str, detail: str = "", *, harmless: bool) -> None:
        """Report a rejected message, the first time that it is rejected on this topic for this reason."""
        if (topic, reason) not in self._rejections and len(self._rejections) < MAX_DIFFERENT:
            self._rejections.add((topic, reason))
            more = {"detail": detail} if detail else {}
            (self.debug if harmless else self.warning)("rejected", topic=topic, reason=reason, **more)


class Carried(NamedTuple):
    """Uplinks and broadcasts since a slot, those of the round that is not complete yet included."""

    uplinks: list[Uplink]  # that arrived: round, device, version, start, end
    lost: list[Uplink]
    broadcasts: list[tuple[int, int, int]]  # round, start, end


class LiveView:
    """Reads a live run; call it in the event loop of the run.

    Attributes:
        plan: The planned schedule.
    """

    def __init__(
        self, plan: Timeline, state: LiveState, inbox: Inbox, rounds: RoundDriver, status: StatusWriter
    ) -> None:
        self.plan = plan
        self._state, self._inbox, self._rounds, self._status = state, inbox, rounds, status

    def status(self) -> LiveStatus:
        """Return the status as it is now."""
        return self._status.status()

    def seconds_since_heard(self) -> dict[int, float]:
        """Return for each device the seconds since its last message that was accepted."""
        now = self._inbox.clock.now()
        return {device: now - moment for device, moment in self._inbox.heard.items()}

    def overdue(self) -> list[int]:
        """Return the devices that are not ready in the slot in which the plan expects them."""
        return sorted(self._state.overdue)

    def stalled_for(self) -> float:
        """Return the seconds without a round, if they are unusually many; otherwise 0."""
        return self._status.stalls.seconds()

    def points(self) -> Sequence[Point]:
        """Return all evaluations so far."""
        return tuple(self._state.points)

    def device_of(self, topic: str) -> int | None:
        """Return the device whose topic this is; None if it is another one."""
        sender = self._inbox.topics.sender(topic)
        return None if sender is None else sender[0]

    def carried(self, first: int) -> Carried:
        """Return what the channel has carried since slot ``first``, as far as that is remembered."""
        recent, (uplinks, lost) = [*self._state.log.recent], self._rounds.current
        recent = recent[bisect_left(recent, first, key=lambda entry: entry[1].end) :]
        return Carried(
            [*(row for _, one in recent for row in one.uplinks if row[4] > first), *uplinks],
            [*(row for _, one in recent for row in one.lost if row[4] > first), *lost],
            [(k, one.start, one.end) for k, one in recent],
        )
