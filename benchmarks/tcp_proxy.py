"""TcpProxy: passes TCP connections on, and cuts, delays or truncates them when told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Self

CHUNK = 1 << 16


class _Connection:
    """One client and its connection to the target."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near, self.far = near, far
        self.held_until, self.truncating = 0.0, False

    def close(self) -> None:
        for writer in (self.near, self.far):
            writer.transport.abort()


class TcpProxy:
    """Listens on ``port`` and connects every client to ``target``, both on this machine."""

    def __init__(self, port: int, target: int) -> None:
        self.port, self._target = port, target
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in list(self._connections):
            connection.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, random: Random, *, everyone: bool) -> int:
        """Cut all connections, or one; return how many."""
        chosen = self._some(random, everyone=everyone)
        for connection in chosen:
            connection.close()
        return len(chosen)

    def delay(self, random: Random, seconds: float, *, everyone: bool) -> int:
        """Hold back everything on all connections, or on one, for some seconds; return how many."""
        until, chosen = asyncio.get_running_loop().time() + seconds, self._some(random, everyone=everyone)
        for connection in chosen:
            connection.held_until = until
        return len(chosen)

    def truncate(self, random: Random, *, everyone: bool) -> int:
        """Pass half of what comes next on all connections, or on one, and cut them; return how many."""
        chosen = self._some(random, everyone=everyone)
        for connection in chosen:
            connection.truncating = True
        return len(chosen)

    def _some(self, random: Random, *, everyone: bool) -> list[_Connection]:
        present = list(self._connections)
        return present if everyone or not present else [random.choice(present)]

    async def _accept(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            near.transport.abort()  # the broker is not there
            return
        connection = _Connection(near, far)
        self._connections.add(connection)
        ways = [
            asyncio.create_task(self._pass_on(connection, reader, far)),
            asyncio.create_task(self._pass_on(connection, far_reader, near)),
        ]
        self._tasks.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        connection.close()
        self._connections.discard(connection)
        await asyncio.gather(*ways, return_exceptions=True)
        self._tasks.difference_update(ways)

    async def _pass_on(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                while (left := connection.held_until - loop.time()) > 0:
                    await asyncio.sleep(left)
                if connection.truncating:
                    writer.write(data[: len(data) // 2])
                    with suppress(TimeoutError):
                        await asyncio.wait_for(writer.drain(), 1.0)
                    return
                writer.write(data)
                await writer.drain()
