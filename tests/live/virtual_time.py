"""Virtual time: an event loop without threads, whose clock advances only when nothing is left to do.

So tests neither sleep nor race: a timeout of an hour takes no time, and always comes after everything that
takes none. Nothing here may wait for a network or a process.
"""

import asyncio
import heapq
import math
import selectors
from itertools import count

from slotwise.live.clock import Clock

LIMIT = 1e6  # virtual seconds after which a test has failed


class VirtualClock(Clock):
    def __init__(self):
        self._now, self._timers, self._numbers = 0.0, [], count()

    def now(self):
        return self._now

    async def sleep(self, seconds):
        await self.after(seconds)

    async def wait(self, futures, seconds):
        timer = self.after(seconds)
        try:
            await asyncio.wait([*futures, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def after(self, seconds):
        """Return a future that is done after some seconds; time passes however few they are."""
        moment = max(self._now + seconds, math.nextafter(self._now, math.inf)) if seconds > 0 else self._now
        timer = asyncio.get_running_loop().create_future()
        heapq.heappush(self._timers, (moment, next(self._numbers), timer))
        return timer

    def advance(self):
        """Go to the next moment at which something happens; return whether there is one."""
        while self._timers and self._timers[0][2].done():
            heapq.heappop(self._timers)
        if not self._timers:
            return False
        self._now = max(self._now, self._timers[0][0])
        assert self._now < LIMIT, "the test does not end"
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer = heapq.heappop(self._timers)
            if not timer.done():
                timer.set_result(None)
        return True


class _Selector(selectors.SelectSelector):
    """Called with a timeout of 0 while callbacks are ready; otherwise the event loop is idle."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def select(self, timeout=None):
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if not self._clock.advance():
            raise AssertionError("deadlock: everything waits, and no time is left to pass")
        return []


class _Loop(asyncio.SelectorEventLoop):
    def run_in_executor(self, executor, function, *arguments):
        """Call the function at once, leave it to a `VirtualExecutor`, or never end an endless one."""
        if isinstance(executor, VirtualExecutor):
            return executor.run(self, function, arguments)
        future = self.create_future()
        owner = getattr(function, "__self__", None)
        while hasattr(owner, "task"):  # of a CheckedTask: the user's is the innermost
            owner = owner.task
        if not getattr(owner, "endless", False):
            _settle(future, function, arguments)
        return future


class VirtualExecutor:
    """Lets the trainings of devices last virtual seconds: always as long, or a list for the first ones."""

    def __init__(self, clock, seconds=None):
        self._clock, self._seconds = clock, seconds or {}

    def run(self, loop, function, arguments):
        future = loop.create_future()
        device = getattr(getattr(function, "__self__", None), "number", 0)
        lasts = self._seconds.get(device, 0.0)
        if isinstance(lasts, list):
            lasts = lasts.pop(0) if lasts else 0.0
        until = self._clock.after(lasts)
        until.add_done_callback(lambda _: future.cancelled() or _settle(future, function, arguments))
        return future


def _settle(future, function, arguments):
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)


def run_virtual(scenario):
    """Return the result of ``scenario(clock)``, a coroutine function, in virtual time."""
    clock = VirtualClock()
    with asyncio.Runner(loop_factory=lambda: _Loop(_Selector(clock))) as runner:
        return runner.run(scenario(clock))
