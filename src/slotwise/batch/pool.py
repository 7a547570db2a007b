"""LocalCrew: processes of this machine that share its cores.

Results do not depend on threads, so a point gets as many as are free for it: one each while there are more
points than cores, several once there are fewer. In sum there are never more threads than cores.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from signal import Signals
from typing import IO, Any

from slotwise.batch.crew import Ended, Event, Lost, Progress
from slotwise.batch.point import Order
from slotwise.batch.training import Job
from slotwise.errors import UserError

# One thread per local training is what slotwise decides; libraries must not add their own.
ONE_THREAD_EACH = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
CHUNK = 1 << 16


class LocalCrew:
    """Up to ``cores`` processes, made when they are needed."""

    losses_allowed = 1

    def __init__(self, folder: Path, cores: int, checkpoint_every: float) -> None:
        self._folder, self._cores, self._checkpoint_every = folder, cores, checkpoint_every
        self._selector = selectors.DefaultSelector()
        self._members: list[_Member] = []

    @property
    def busy(self) -> int:
        """How many points are being trained."""
        return sum(member.job is not None for member in self._members)

    def give(self, job: Job, waiting: int) -> bool:
        """Train a job on its share of the free cores."""
        free = self._cores - sum(member.threads for member in self._members)
        if free == 0:
            return False
        idle = next((member for member in self._members if member.job is None), None)
        share = -(-free // min(waiting, free))
        (idle or self._hire()).begin(job, Order.of(job, share, self._checkpoint_every))
        return True

    def wait(self, seconds: float) -> Sequence[Event]:
        """What the processes say, or that one has died."""
        events: list[Event] = []
        for key, _ in self._selector.select(seconds):
            member: _Member = key.data
            content = os.read(key.fd, CHUNK)
            events += member.heard(content) if content else self._bury(member)
        return events

    def stop(self) -> None:
        """Say that there are no more orders: every process saves its point and ends."""
        for member in self._members:
            member.dismiss()

    def close(self) -> None:
        """End those that are still there."""
        for member in self._members:
            member.end()
        self._members.clear()
        self._selector.close()

    def _hire(self) -> _Member:
        member = _Member(self._folder)
        self._selector.register(member.output, selectors.EVENT_READ, member)
        self._members.append(member)
        return member

    def _bury(self, member: _Member) -> list[Event]:
        self._selector.unregister(member.output)
        self._members.remove(member)
        reason = member.death()
        return [] if member.job is None else [Lost(member.job, reason)]


class _Member:
    """A process, and the point it trains."""

    def __init__(self, folder: Path) -> None:
        self.job: Job | None = None
        self.threads = 0
        self._ready = False
        self._rest = b""
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "slotwise.batch.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, **dict.fromkeys(ONE_THREAD_EACH, "1")},
            start_new_session=True,  # Ctrl-C in a terminal is for the sweep alone, which tells its processes
        )

    @property
    def output(self) -> IO[bytes]:
        """Where it speaks."""
        assert self._process.stdout is not None
        return self._process.stdout

    def begin(self, job: Job, order: Order) -> None:
        """Have a point trained."""
        self.job, self.threads = job, order.threads
        assert self._process.stdin is not None
        with suppress(OSError):  # it has died; `wait` finds out
            self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
            self._process.stdin.flush()

    def heard(self, content: bytes) -> list[Event]:
        """What it has said."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [event for line in lines for event in self._understood(json.loads(line))]

    def _understood(self, said: dict[str, Any]) -> Iterator[Event]:
        event, job = said.pop("event"), self.job
        if event == "ready":
            self._ready = True
        elif job is not None and event == "progress":
            yield Progress(job, **said)
        elif job is not None:
            self.job, self.threads = None, 0
            yield Ended(job, **said)

    def dismiss(self) -> None:
        """It may go when it has saved its point."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def death(self) -> str:
        """Why it has ended.

        Raises:
            UserError: it never came to work, and no other would.
        """
        code, complaint = self._process.wait(), self._last_complaint()
        self.end()
        if code < 0:
            return f"its process was ended by {Signals(-code).name}"
        if code and not self._ready:
            raise UserError(f"a process of the sweep cannot start: {complaint}")
        return f"its process ended: {complaint}"

    def end(self) -> None:
        """At once."""
        self._process.kill()
        self._process.wait()
        self.dismiss()
        self.output.close()
        self._complaints.close()

    def _last_complaint(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")
