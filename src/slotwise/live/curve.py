"""The curve of a live run: models evaluated beside it, one after another."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from slotwise.learning import Point, Task
from slotwise.live.state import LiveState


class Curve:
    """Evaluates the models of the rounds ``due`` in a thread of its own."""

    def __init__(
        self, task: Task, state: LiveState, due: Collection[int], evaluated: Callable[[Point], None]
    ) -> None:
        self._task, self._state, self._due, self._evaluated = task, state, due, evaluated

    def note(self) -> None:
        """Note the newest model, if it is to be a point of the curve."""
        state = self._state
        if state.round in self._due and all(point.round != state.round for point in state.points):
            state.unevaluated[state.round] = state.models[state.round]

    async def follow(self) -> None:
        """Evaluate what is noted; without end."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="evaluate")
        try:
            while True:
                if self._state.unevaluated:
                    await self._evaluate(pool, min(self._state.unevaluated))
                else:
                    await asyncio.sleep(0.05)
        finally:
            pool.shutdown(wait=False)  # who ends before all is evaluated does not want to wait

    async def done(self, following: asyncio.Task[None]) -> None:
        """Wait until nothing is left to evaluate; ``following`` is the task that does it."""
        while self._state.unevaluated:
            if following.done():
                following.result()
            await asyncio.sleep(0.02)

    async def _evaluate(self, pool: ThreadPoolExecutor, version: int) -> None:
        model = self._state.unevaluated[version]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(pool, self._task.evaluate, model)
        point = _point(self._state, version, found.loss, found.accuracy)
        self._state.points.append(point)
        del self._state.unevaluated[version]
        self._evaluated(point)


def _point(state: LiveState, version: int, loss: float, accuracy: float) -> Point:
    if version == 0:
        return Point(0, 0, loss, accuracy, 0)
    slot = int(state.record.broadcasts[version - 1][1])
    uplinks = state.record.uplinks  # by rounds
    own = uplinks[bisect_left(uplinks, (version - 1,)) : bisect_left(uplinks, (version,))]
    ages = [k - start for k, _, start, _, _ in own]
    return Point(slot, version, loss, accuracy, max(ages, default=0))
