"""Ports, folders and browsers of the explorer, and connections that send no request."""

import socket
import threading
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from serving import Served, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from slotwise.base.errors import InputError, UserError
from slotwise.web import http_connections, web_server
from slotwise.web.web_server import HOST, explore, listening


@pytest.mark.parametrize("name", ["nowhere", "x" * 5000])
def test_runs_that_are_no_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="not a folder"):
        explore(tmp_path / name)


def test_the_usual_port_gives_way_and_a_port_that_was_asked_for_does_not() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with listening(HOST, None, usual=port) as other:
            assert other.getsockname()[1] != port
        with pytest.raises(InputError) as raised:
            listening(HOST, port)
    assert (raised.value.parameter, raised.value.value) == ("port", port)


@pytest.mark.parametrize("port", [0, 65_536])
def test_a_port_is_a_number_of_16_bits(port: int) -> None:
    with pytest.raises(InputError) as raised:
        listening(HOST, port)
    assert raised.value.parameter == "port"


class Server:
    """Answers at once, and is interrupted then."""

    def __init__(self, app: Any, started: Any) -> None:
        self._started = started

    def run(self, sockets: list[socket.socket]) -> None:
        self._started()
        raise KeyboardInterrupt


def test_the_address_is_told_and_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, happened, told = list[str](), threading.Event(), list[str]()

    def open_page(address: str) -> None:
        opened.append(address)
        happened.set()

    monkeypatch.setattr(web_server, "make_server", Server)
    monkeypatch.setattr(webbrowser, "open", open_page)
    explore(tmp_path, ready=told.append)
    assert happened.wait(60)
    assert told == opened
    assert told[0].startswith(f"http://{HOST}:")


def test_no_browser_is_opened_if_none_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "make_server", Server)
    monkeypatch.setattr(threading, "Thread", lambda **_: pytest.fail("a thread was started"))
    explore(tmp_path, browser=False)


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"hello {request.url.path}")


def half_open(server: Served) -> socket.socket:
    """Return a connection that has sent the beginning of a request."""
    connection = socket.create_connection((HOST, server.port), timeout=60)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection; what was sent and not read resets it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_many_half_open_requests_do_not_keep_others_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MOST_CONNECTIONS", 20)
    with served(Starlette(routes=[Route("/healthz", answer)])) as server:
        waiting = [half_open(server) for _ in range(50)]
        assert server.request("/healthz") == (200, b"hello /healthz")
        assert all(map(is_closed, waiting[:30]))  # the oldest had to go
        for one in waiting:
            one.close()


def test_a_request_that_is_never_complete_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "HEADER_TIMEOUT", 0.05)
    with served(Starlette(routes=[Route("/{name}", answer)])) as server:
        silent, slow = socket.create_connection((HOST, server.port), timeout=60), half_open(server)
        assert is_closed(silent)
        assert is_closed(slow)
        again = socket.create_connection((HOST, server.port), timeout=60)
        again.sendall(b"GET /one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /two HT")  # and no end of it
        received = b""
        while data := again.recv(1000):
            received += data
        assert received.endswith(b"hello /one")
        for one in (silent, slow, again):
            one.close()
