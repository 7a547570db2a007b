"""Signs of life for systemd: a service with WatchdogSec= that hangs is restarted."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

SHARE = 3  # signs in the time that systemd allows between two


def notify(state: str) -> None:
    """Tell systemd the state of this service, as sd_notify does; without systemd do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address  # an abstract socket
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), name)


@asynccontextmanager
async def watched_by_systemd() -> AsyncIterator[None]:
    """Report that the service is ready, and that its event loop runs, until the end of the block."""
    notify("READY=1")
    signs = asyncio.create_task(_send_signs())
    try:
        yield
    finally:
        signs.cancel()
        notify("STOPPING=1")


async def _send_signs() -> None:
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or not int(microseconds):
        return
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(int(microseconds) / 1e6 / SHARE)
