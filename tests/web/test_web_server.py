"""Ports, folders and browsers of the explorer; nothing is served."""

import socket
import threading
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.web import web_server
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
