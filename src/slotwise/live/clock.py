"""Time in a live run: a clock that tests can replace, waiting for changes, slots, and limits of rates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

FROZEN = 5.0  # seconds without a call: the process was stopped, because it looks at the clock all the time


class Clock:
    """Real time. Tests use a subclass whose time passes without waiting."""

    def __init__(self) -> None:
        self._last, self._stopped = time.monotonic(), 0.0

    def now(self) -> float:
        """Return seconds since a fixed moment, without those in which this process was stopped.

        A server that was stopped (SIGSTOP, a suspended machine) must not blame its devices for that time.
        """
        moment = time.monotonic()
        if moment - self._last > FROZEN:
            self._stopped += moment - self._last
        self._last = moment
        return moment - self._stopped

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await asyncio.sleep(seconds)

    async def wait(self, futures: Iterable[asyncio.Future[Any]], seconds: float) -> None:
        """Wait until one of ``futures`` is done, but not longer than ``seconds``."""
        # Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes together with a result.
        await asyncio.wait(futures, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)


class Signal:
    """Wakes all who wait for the next change."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake all who wait at the moment."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    def next(self) -> asyncio.Future[None]:
        """Return a future that is done at the next `notify`."""
        # All who wait share one future. Callers must check their condition and call this without an await in
        # between; otherwise they miss a change that comes in that moment.
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        return self._next


class Timeout:
    """A number of seconds to wait in each instant, however many devices are waited for in it.

    Time without a connection does not count: no device could have sent anything.
    """

    def __init__(self, seconds: float, connected: Callable[[], bool], changed: Signal, clock: Clock) -> None:
        self._seconds, self._connected, self._changed, self._clock = seconds, connected, changed, clock
        self._since = clock.now()

    def restart(self) -> None:
        """Begin to count again."""
        self._since = self._clock.now()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until ``happened()`` is true or the time is up."""
        while not happened():
            if not self._connected():
                self.restart()
            left = self._seconds - (self._clock.now() - self._since)
            if left <= 0:
                return
            # Once a second, because a lost connection has to restart the time and notifies nobody.
            await self.change(min(left, 1.0))

    async def change(self, seconds: float) -> None:
        """Wait for the next change, but not longer than ``seconds``."""
        await self._clock.wait([self._changed.next()], seconds)


class SlotClock:
    """Slots of ``slot_ms`` milliseconds or, with None, slots that last until their events have happened."""

    def __init__(self, slot_ms: float | None, clock: Clock) -> None:
        self._seconds = None if slot_ms is None else slot_ms / 1000
        self._clock, self._origin = clock, clock.now()

    @property
    def paced(self) -> bool:
        """True if slots have a fixed length."""
        return self._seconds is not None

    def start(self, slot: int) -> None:
        """Set the current slot."""
        # A resumed run continues in the slot of its checkpoint: time without a server has no slots.
        self._origin = self._clock.now() - slot * (self._seconds or 0.0)

    def seconds_until(self, slot: int) -> float:
        """Return the seconds until ``slot`` begins; 0 if slots have no length."""
        return 0.0 if self._seconds is None else self._origin + slot * self._seconds - self._clock.now()

    def ns_since(self, slot: int) -> int:
        """Return the nanoseconds since ``slot`` began."""
        return round(-self.seconds_until(slot) * 1e9)

    def next_slot(self, after: int) -> int:
        """Return the first slot that begins now or later, and after slot ``after``."""
        return after + 1 if self._seconds is None else max(after + 1, ceil(self._elapsed(self._seconds)))

    def reached(self, slot: int) -> int:
        """Return the current slot, at least ``slot``: later if the server is behind."""
        return slot if self._seconds is None else max(slot, int(self._elapsed(self._seconds)))

    def _elapsed(self, slot_seconds: float) -> float:
        return (self._clock.now() - self._origin) / slot_seconds


class RateLimit:
    """Allows ``burst`` actions at once, and ``per_second`` on average, for each device by itself."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._burst, self._per_second = float(burst), per_second
        self._used: dict[int, tuple[float, float]] = {}  # actions not made up for, and when that was

    def allows(self, device: int, now: float) -> bool:
        """Count an action; False if it is one too many."""
        used = self.used(device, now)
        if used > self._burst - 1:
            return False
        self._used[device] = used + 1, now
        return True

    def used(self, device: int, now: float) -> float:
        """Return how much of the burst is used."""
        used, since = self._used.get(device, (0.0, now))
        return max(0.0, used - (now - since) * self._per_second)
