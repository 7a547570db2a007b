"""Event streams: the newest state, signs of life between, and a limit to their number; and redirects."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.responses import StreamingResponse

from slotwise.web import guard
from slotwise.web.guard import Changes, EventStreams, Guard


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "EVENT_INTERVAL", 0.0)
    monkeypatch.setattr(guard, "HEARTBEAT_INTERVAL", 0.0)


async def events(streams: EventStreams) -> AsyncIterator[str]:
    response = streams.response()
    assert isinstance(response, StreamingResponse)
    async for event in response.body_iterator:
        yield str(event)


def test_a_stream_sends_states_and_signs_of_life() -> None:
    async def follow() -> list[str]:
        changes, found, state = Changes(), [], ["0"]
        streams = EventStreams(changes, lambda: state[0])
        async for event in events(streams):
            found.append(event)
            if len(found) == 2:  # two changes are one event
                for state[0] in ("1", "2"):
                    changes.notify()
            if len(found) == 4:
                break
        return found

    sign = ": still here\n\n"
    assert asyncio.run(follow()) == ["data: 0\n\n", sign, "data: 2\n\n", sign]


def test_too_many_streams_are_refused_until_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_STREAMS", 1)

    async def open_two() -> tuple[int, int]:
        streams = EventStreams(Changes(), lambda: "0")
        first = streams._events()
        await anext(first)
        refused = streams.response().status_code
        await first.aclose()  # type: ignore[attr-defined]
        return refused, streams.response().status_code

    assert asyncio.run(open_two()) == (503, 200)


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/\\evil.example", "/"])
def test_the_redirect_that_hides_the_token_stays_on_this_host(path: str) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def nothing(*_: Any) -> None:
        raise AssertionError

    host = [(b"host", b"localhost")]
    scope = {"type": "http", "path": path, "query_string": b"token=secret", "headers": host}
    asyncio.run(Guard(nothing, token="secret")(scope, nothing, send))
    location = dict(sent[0]["headers"])[b"location"].decode()
    assert sent[0]["status"] == 303
    assert urlsplit(location).netloc == ""
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))
