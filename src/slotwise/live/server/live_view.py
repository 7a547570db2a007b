"""LiveView: what may be read of a live run while it runs, beyond its status; nothing can be changed by it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from slotwise.learning import Point
from slotwise.live.server.inbox import Inbox
from slotwise.live.server.live_status import LiveStatus
from slotwise.live.server.rounds import RoundDriver
from slotwise.live.server.state import LiveState
from slotwise.live.server.status_writer import StatusWriter
from slotwise.schedule import Timeline
from slotwise.schedule.timeline import Uplink


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

    def points(self) -> Sequence[Point]:
        """Return all evaluations so far."""
        return tuple(self._state.points)

    def device_of(self, topic: str) -> int | None:
        """Return the device whose topic this is; None if it is another one."""
        sender = self._inbox.topics.sender(topic)
        return None if sender is None else sender[0]

    def carried(self, first: int) -> Carried:
        """Return what the channel has carried since slot ``first``."""
        record, (uplinks, lost) = self._state.record, self._rounds.current
        ended = bisect_left(record.broadcasts, first, key=lambda broadcast: broadcast[1])
        sent = enumerate(record.broadcasts[ended:], ended)
        return Carried(
            [*chain(_since(record.uplinks, first), uplinks)],
            [*chain(_since(record.lost, first), lost)],
            [(k, start, end) for k, (start, end) in sent],
        )


def _since(uplinks: Sequence[Uplink], first: int) -> Iterator[Uplink]:
    """Yield the uplinks, which are in the order of the channel, that end after a slot."""
    begin = bisect_left(uplinks, first + 1, key=lambda uplink: uplink[4])
    yield from uplinks[begin:]
