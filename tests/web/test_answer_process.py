"""The server's side of the process that computes answers: too many requests, and a process that has ended."""

import asyncio
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotwise.web import answer_process
from slotwise.web.answer_process import AnswerProcess


class Ended:
    """A process that has ended before it is asked."""

    def __init__(self, code: int) -> None:
        async def nothing() -> Any:
            return b""

        self.returncode = code
        self.stdin = SimpleNamespace(write=lambda _: None, drain=nothing)
        self.stdout = SimpleNamespace(readline=nothing)


@pytest.mark.parametrize(
    ("code", "starts", "says"),
    [(0, 2, "try again"), (1, 1, "try again"), (-signal.SIGPROF, 1, "longer than 7 s")],
)
def test_a_process_that_ended_by_itself_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, starts: int, says: str
) -> None:
    started = []

    async def start(_: AnswerProcess) -> Ended:
        started.append(Ended(code))
        return started[-1]

    monkeypatch.setattr(AnswerProcess, "_started", start)
    answer = asyncio.run(AnswerProcess(tmp_path, seconds=7).answer("view", {}))
    assert (answer.status, len(started)) == (422, starts)
    assert says in json.loads(answer.content)["message"]


def test_too_many_requests_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_process, "MOST_WAITING", 0)
    answer = asyncio.run(AnswerProcess(tmp_path).answer("view", {}))
    assert answer.status == 422
    assert "too many" in json.loads(answer.content)["message"]


class Ending(Ended):
    """A process that has closed its output and ends a little later, unless it is killed before."""

    def __init__(self) -> None:
        super().__init__(1)
        self.returncode: int | None = None

    async def wait(self) -> None:
        await asyncio.sleep(0)
        self.returncode = 1 if self.returncode is None else self.returncode

    def kill(self) -> None:
        self.returncode = -signal.SIGKILL if self.returncode is None else self.returncode


def test_a_process_that_fails_is_not_said_to_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(process: AnswerProcess) -> Any:
        process._process = Ending()  # type: ignore[assignment]
        return process._process

    monkeypatch.setattr(AnswerProcess, "_started", start)
    answer = asyncio.run(AnswerProcess(tmp_path).answer("view", {}))
    assert "try again" in json.loads(answer.content)["message"]
