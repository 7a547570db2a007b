"""AnswerProcess: a process that computes answers of the explorer, started when it is needed.

A request that takes too long or too much memory ends the process, and the next one starts another. So no
request can occupy the machine for long, and none can exhaust its memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotwise.base.errors import UserError
from slotwise.web.answers import USE_COMMANDS, Answer, Answers, as_json, refusal
from slotwise.workers import ProcessWorker, Terms, WorkerLost

MOST_SECONDS = 10.0  # of the processor, for one answer
MOST_MEMORY = 3 << 30  # bytes, beyond what the process has when it starts
MOST_SILENCE = 300.0  # seconds of the clock: the process hangs
MOST_WAITING = 32  # requests that wait for one process
FAILED = "slotwise failed to answer; please report this"


class AnswerProcess:
    """Computes one answer at a time.

    Args:
        root: folder of runs to browse.
        seconds: the most seconds of the processor that an answer may take.
    """

    def __init__(self, root: Path, seconds: float = MOST_SECONDS) -> None:
        self._root, self._seconds = root, seconds
        self._worker: ProcessWorker | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, call: str, given: Mapping[str, Any]) -> Answer:
        """Return the answer to a call of `Answers`, or a refusal if it takes too long."""
        if self._waiting >= MOST_WAITING:
            return refusal("too many requests at once")
        # A caller that is cancelled leaves an answer behind, which has to be read before the next one.
        return await asyncio.shield(self._exchange(call, given))

    async def _exchange(self, call: str, given: Mapping[str, Any]) -> Answer:
        self._waiting += 1
        try:
            async with self._turn:
                asked = asyncio.create_task(asyncio.to_thread(self._ask, call, dict(given)))
                done, _ = await asyncio.wait([asked], timeout=MOST_SILENCE)
                if not done and self._worker is not None:
                    self._worker.kill()  # which ends the call
                return await asked
        except WorkerLost as lost:
            return refusal(self._reason(lost))
        except UserError as error:  # a mistake in slotwise: one request fails, and not the process
            return as_json({"message": f"{FAILED}: {error}", "parameter": None}, 500)
        finally:
            self._waiting -= 1

    def _ask(self, call: str, given: dict[str, Any]) -> Answer:
        """Ask the process, which is started if there is none."""
        worker = self._worker
        try:
            if worker is None:
                terms = Terms(seconds=self._seconds, memory=MOST_MEMORY)
                worker = self._worker = ProcessWorker(Answers, self._root, shown="explorer", terms=terms)
                worker.load()
            answer: Answer = worker.call("answer", call, given)
        except WorkerLost:
            self._worker = None
            if worker is not None:
                worker.close()
            raise
        return answer

    def _reason(self, lost: WorkerLost) -> str:
        """Return why there is no answer."""
        if lost.limit == "memory":
            return f"this takes more memory than the explorer has; {USE_COMMANDS}"
        if lost.limit == "seconds":
            return f"this takes longer than {self._seconds:g} s; {USE_COMMANDS}"
        return f"there is no answer: {lost}; try again"

    async def start(self) -> None:
        """Start the process before it is needed."""
        await self.answer("ready", {})

    async def close(self) -> None:
        """End the process if there is one, and what it computes."""
        if self._worker is not None:
            self._worker.kill()
        async with self._turn:
            if self._worker is not None:
                self._worker.close()
            self._worker = None
