"""The process that computes answers: the answers of `Answers`, and refusals if there is none."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotwise.web import explorer_app
from slotwise.web.answers import Answer, Answers
from slotwise.web.explorer_app import AnswerProcess


def asked(process: AnswerProcess, *calls: tuple[str, dict[str, Any]]) -> list[Answer]:
    """Ask one thing after another, and close the process."""

    async def ask() -> list[Answer]:
        try:
            return [await process.answer(call, given) for call, given in calls]
        finally:
            await process.close()

    return asyncio.run(ask())


def message(answer: Answer) -> str:
    return str(json.loads(answer.content)["message"])


def test_answers_are_those_of_this_process_and_a_mistake_fails_one_request_only(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("ready", {}), ("view", {"devices": "0"}), ("runs", {})]
    *answers, failed, last = asked(AnswerProcess(tmp_path), *calls, ("no such call", {}), ("ready", {}))
    assert answers == [Answers(tmp_path).answer(call, given) for call, given in calls]
    assert (failed.status, last.status) == (500, 200)
    assert "no such call" in message(failed)


def test_a_process_that_dies_or_needs_too_much_memory_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer_app, "MOST_MEMORY", 64 << 20)
    process = AnswerProcess(tmp_path)
    large = {"devices": "1000", "group_size": "1000", "deadline": "2990000"}

    async def ask() -> list[Answer]:
        refused = await process.answer("view", large)
        ready = await process.answer("ready", {})
        assert process._worker is not None
        os.kill(process._worker._process.pid, signal.SIGKILL)
        answers = [refused, ready, *[await process.answer("ready", {}) for _ in range(2)]]
        await process.close()
        return answers

    refused, ready, killed, again = asyncio.run(ask())
    assert [answer.status for answer in (refused, ready, killed, again)] == [422, 200, 422, 200]
    assert "memory" in message(refused)
    assert "SIGKILL; try again" in message(killed)


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer_app, "MOST_SILENCE", 0.5)
    monkeypatch.setattr(AnswerProcess, "_ask", hanging(AnswerProcess._ask))
    (answer,) = asked(AnswerProcess(tmp_path), ("ready", {}))
    assert "try again" in message(answer)


def hanging(ask: Callable[..., Answer]) -> Callable[..., Answer]:
    """Stop the process as soon as it has started."""

    def ask_stopped(process: AnswerProcess, call: str, given: dict[str, Any]) -> Answer:
        process._worker = explorer_app.ProcessWorker(Answers, process._root)
        os.kill(process._worker._process.pid, signal.SIGSTOP)
        return ask(process, call, given)

    return ask_stopped


def test_too_many_requests_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer_app, "MOST_WAITING", 0)
    (answer,) = asked(AnswerProcess(tmp_path), ("view", {}))
    assert answer.status == 422
    assert "too many" in message(answer)
