"""Sockets of the UDP channel: a server that listens, and devices that talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from slotwise.base.errors import UserError
from slotwise.live.protocol import Topics
from slotwise.live.transport import Message
from slotwise.live.transport.outages import Outages
from slotwise.live.transport.udp_login import MulticastGroup, UdpLogin
from slotwise.live.udp.group import GroupSender
from slotwise.live.udp.group_sockets import GroupListener, GroupSpeaker
from slotwise.live.udp.hub import Address, UdpHub
from slotwise.live.udp.udp_channel import UdpChannel

LONGEST_PAUSE = 0.05  # seconds between two looks at what is due
LEAVE_TIMEOUT = 3.0  # seconds in which devices may still acknowledge the last messages
FIRST_ANSWER = 0.5  # seconds, however short the timeout is
RETRY = 0.5  # seconds


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.receive: Callable[[bytes, Address], None] = lambda *_: None
        self.failed: Callable[[], None] = lambda: None

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.receive(data, addr)

    def error_received(self, exc: Exception) -> None:
        del exc  # nobody listens there, or the network is down: what matters is repeated
        self.failed()


async def _keep_ticking(tick: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(min(tick(), LONGEST_PAUSE))


async def _open(login: UdpLogin, *, listen: bool) -> tuple[asyncio.DatagramTransport, _Datagrams]:
    """Return a socket that listens at the address, or one that is connected with it."""
    where = {"local_addr" if listen else "remote_addr": (login.host, login.port)}
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(_Datagrams, **where)  # type: ignore[arg-type]
    return transport, protocol


@asynccontextmanager
async def listening_hub(
    login: UdpLogin, topics: Topics, frame_bytes: int, group: MulticastGroup | None = None
) -> AsyncIterator[UdpHub]:
    """Listen for the devices whose keys the login has; with a ``group`` models go to it."""
    try:
        transport, protocol = await _open(login, listen=True)
    except OSError as error:
        raise UserError(f"cannot listen at {login}: {error.strerror or error}") from None
    loop = asyncio.get_running_loop()
    speaker = None if group is None else GroupSpeaker(transport, group)
    sender = None if speaker is None else GroupSender(speaker.group, frame_bytes, speaker.send)
    hub = UdpHub(login.keys, topics, frame_bytes, transport.sendto, loop.time, sender)
    protocol.receive = hub.receive
    ticking = asyncio.create_task(_keep_ticking(hub.tick))
    try:
        yield hub
    finally:
        until = loop.time() + LEAVE_TIMEOUT
        while hub.is_busy and loop.time() < until:
            await asyncio.sleep(LONGEST_PAUSE)
        ticking.cancel()
        hub.close()
        transport.close()
        if speaker is not None:
            speaker.close()
        await asyncio.sleep(0)  # the socket is closed in the next iteration: another hub may follow at once


@asynccontextmanager
async def connected_device(
    login: UdpLogin, device: int, *, will: Message, keepalive: int, timeout: float, outages: Outages
) -> AsyncIterator[UdpChannel]:
    """Open a channel that has had a session once; from then on lost sessions are opened again.

    Raises a UserError if there is no session within ``timeout`` seconds.
    """
    loop, name = asyncio.get_running_loop(), f"device-{device}"
    until = loop.time() + timeout
    transport, protocol = await _reach(login, until)

    def report(connected: bool) -> None:
        if connected:
            outages.over(name)
        else:
            outages.lost(name, None)

    listener = GroupListener(transport)
    channel = UdpChannel(
        device, login.secret, will, keepalive, transport.sendto, loop.time, report, listener.join
    )
    listener.receive = channel.receive_from_group

    def receive(datagram: bytes, _: Address) -> None:
        listener.read()
        channel.receive(datagram)

    protocol.receive, protocol.failed = receive, channel.unreachable
    ticking = asyncio.create_task(_keep_ticking(channel.tick))
    try:
        try:
            await asyncio.wait_for(channel.until_connected(), max(until - loop.time(), FIRST_ANSWER))
        except TimeoutError:
            raise UserError(
                f"cannot reach a server at {login} (no answer; it answers only devices whose key it has)"
            ) from None
        yield channel
    finally:
        ticking.cancel()
        channel.close()
        listener.close()
        transport.close()


async def _reach(login: UdpLogin, until: float) -> tuple[asyncio.DatagramTransport, _Datagrams]:
    """Return a socket to a server whose name may be known only later."""
    while True:
        try:
            return await _open(login, listen=False)
        except OSError as error:
            if asyncio.get_running_loop().time() >= until:
                raise UserError(f"cannot reach a server at {login} ({error.strerror or error})") from None
        await asyncio.sleep(RETRY)
