"""UdpProxy: passes datagrams on, and loses, doubles, delays or reorders them when told to."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Self

MOST_HELD = 10_000  # datagrams that wait to be passed on
REORDERED = 0.05  # seconds by which disturbed datagrams are late, at most
BLACKOUT = 2.0  # seconds in which nothing is passed on after a cut


class _Connection(asyncio.DatagramProtocol):
    """One client, and the socket by which the target knows it."""

    def __init__(self, proxy: UdpProxy, client: Any) -> None:
        self._proxy, self.client = proxy, client
        self.held_until = self.dark_until = self.disturbed_until = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        del addr
        self._proxy.pass_on(self, lambda: self._proxy.to_client(data, self.client))

    def error_received(self, exc: Exception) -> None:
        del exc  # the target is not there: the datagram is lost


class UdpProxy(asyncio.DatagramProtocol):
    """Listens on ``port`` and passes datagrams of every client to ``target``, both on this machine."""

    def __init__(self, port: int, target: int, random: Random) -> None:
        self.port, self._target, self._random = port, target, random
        self._connections: dict[Any, _Connection] = {}
        self._opening: dict[Any, asyncio.Task[None]] = {}
        self._held = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", self.port)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()
        for connection in self._connections.values():
            connection.transport.close()

    def cut(self, random: Random, *, everyone: bool) -> int:
        """Pass on nothing for a while, as if a cable was out; return how many connections are cut."""
        chosen = self._some(random, everyone=everyone)
        for connection in chosen:
            connection.dark_until = asyncio.get_running_loop().time() + BLACKOUT
        return len(chosen)

    def delay(self, random: Random, seconds: float, *, everyone: bool) -> int:
        """Hold back everything for some seconds; return how many connections are delayed."""
        until, chosen = asyncio.get_running_loop().time() + seconds, self._some(random, everyone=everyone)
        for connection in chosen:
            connection.held_until = until
        return len(chosen)

    def truncate(self, random: Random, *, everyone: bool) -> int:
        """Lose, double and reorder datagrams for some seconds; return on how many connections."""
        chosen = self._some(random, everyone=everyone)
        for connection in chosen:
            connection.disturbed_until = asyncio.get_running_loop().time() + random.uniform(1.0, 5.0)
        return len(chosen)

    def _some(self, random: Random, *, everyone: bool) -> list[_Connection]:
        present = list(self._connections.values())
        return present if everyone or not present else [random.choice(present)]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Pass on a datagram of a client, which gets a connection of its own."""
        connection = self._connections.get(addr)
        if connection is not None:
            self.pass_on(connection, lambda: connection.transport.sendto(data))
        elif addr not in self._opening:  # the datagram is lost; the client repeats it
            self._opening[addr] = asyncio.create_task(self._open(addr))

    async def _open(self, client: Any) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_datagram_endpoint(
            lambda: _Connection(self, client), remote_addr=("127.0.0.1", self._target)
        )
        self._connections[client] = connection
        del self._opening[client]

    def to_client(self, data: bytes, client: Any) -> None:
        """Send a datagram to a client."""
        self._transport.sendto(data, client)

    def pass_on(self, connection: _Connection, send: Any) -> None:
        """Pass a datagram on now, later, twice or never."""
        loop, copies = asyncio.get_running_loop(), 1
        now = loop.time()
        if now < connection.dark_until or self._held > MOST_HELD:
            return
        wait = max(0.0, connection.held_until - now)
        if now < connection.disturbed_until:
            copies = self._random.choice((0, 1, 1, 1, 2))
            wait += self._random.uniform(0.0, REORDERED)
        if not wait and copies == 1:
            send()
            return
        for _ in range(copies):
            self._held += 1
            loop.call_later(wait, self._release, send)

    def _release(self, send: Any) -> None:
        self._held -= 1
        if not self._transport.is_closing():
            send()
