"""AnswerProcess: the side of the server of a process that computes answers, started when it is needed.

A request that takes too long ends the process, and the next one starts another. So no request can occupy the
machine for long, and none can exhaust its memory.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slotwise.web.answers import USE_COMMANDS, Answer, refusal

MOST_SECONDS = 10.0  # of the processor, for one answer
MOST_SILENCE = 300.0  # seconds of the clock: the process hangs
EXIT_SECONDS = 5.0  # of a process that has closed its output
MOST_WAITING = 32  # requests that wait for one process


class AnswerProcess:
    """Computes one answer at a time.

    Args:
        root: folder of runs to browse.
        seconds: the most seconds of the processor that an answer may take.
    """

    def __init__(self, root: Path, seconds: float = MOST_SECONDS) -> None:
        self._root, self._seconds = root, seconds
        self._process: Process | None = None
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
                # A process that has refused a request for lack of memory ends by itself. That shows only when
                # it is asked again, so another one is asked then.
                silent = False
                for _ in range(2):
                    process = await self._started()
                    try:
                        return await asyncio.wait_for(_ask(process, call, given), MOST_SILENCE)
                    except (OSError, EOFError):  # it is ending, and its exit code says why
                        await self._kill(EXIT_SECONDS)
                    except TimeoutError:
                        silent = True
                        await self._kill()
                    if process.returncode != 0:  # otherwise it had ended by itself before
                        break
                # SIGPROF ends a process that computes for too long.
                took_long = silent or process.returncode == -signal.SIGPROF
                reason = f"this takes longer than {self._seconds:g} s; {USE_COMMANDS}"
                return refusal(reason if took_long else "the process that computes has ended; try again")
        finally:
            self._waiting -= 1

    async def _started(self) -> Process:
        """Return the process, which is started if there is none."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "slotwise.web.compute_worker", str(self._root), str(self._seconds)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                start_new_session=True,
            )
        return self._process

    async def start(self) -> None:
        """Start the process before it is needed."""
        await self.answer("ready", {})

    async def _kill(self, patience: float = 0.0) -> None:
        """End the process, unless it ends by itself within some seconds."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        """End the process if there is one."""
        await self._kill()


async def _ask(process: Process, call: str, given: Mapping[str, Any]) -> Answer:
    """Send a request and read its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"call": call, "given": given}).encode() + b"\n")
    await process.stdin.drain()
    line = await process.stdout.readline()
    if not line:
        raise EOFError
    header = json.loads(line)
    content = await process.stdout.readexactly(header["length"])
    return Answer(header["status"], header["media_type"], content)
