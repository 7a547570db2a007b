"""Signs of life for systemd."""

import asyncio
import socket
from pathlib import Path

import pytest

from slotwise.base.service_watchdog import notify, watched_by_systemd


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(60)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    return listener


def test_a_service_says_that_it_is_ready_alive_and_stopping(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000")

    async def serve() -> list[bytes]:
        async with watched_by_systemd():
            loop, states = asyncio.get_running_loop(), list[bytes]()
            while len(states) < 4:
                states.append(await loop.run_in_executor(None, systemd.recv, 100))
        return states

    with systemd:
        assert asyncio.run(serve()) == [b"READY=1", *[b"WATCHDOG=1"] * 3]
        while (state := systemd.recv(100)) == b"WATCHDOG=1":
            pass
        assert state == b"STOPPING=1"


def test_without_systemd_or_with_one_that_is_gone_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")
