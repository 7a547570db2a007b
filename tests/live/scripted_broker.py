"""A broker that answers as a test wants it: what real brokers do in rare cases, or only in other versions."""

import asyncio
from contextlib import asynccontextmanager

from slotwise.live.transport.broker import Broker

ACCEPTED = b"\x20\x02\x00\x00"
CONNECT, PUBLISH = 1, 3  # types of packets


class ScriptedBroker:
    """Answers each connection with what ``answers`` has for its version of MQTT, and keeps what it receives.

    An answer of None is the end of the connection.
    """

    def __init__(self, answers):
        self.answers = answers
        self.versions, self.packets = [], asyncio.Queue()

    @asynccontextmanager
    async def listening(self):
        self.connections = []
        server = await asyncio.start_server(self._serve, "127.0.0.1")
        try:
            yield Broker("127.0.0.1", server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for writer in self.connections:
                writer.close()

    def send(self, data):
        self.connections[-1].write(data)

    async def _serve(self, reader, writer):
        self.connections.append(writer)
        try:
            while True:
                kind, body = await self._packet(reader)
                if kind == CONNECT:
                    self.versions.append(body[6])
                    answer = self.answers.get(body[6])
                    if answer is None:
                        break
                    writer.write(answer)
                else:
                    self.packets.put_nowait((kind, body))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    @staticmethod
    async def _packet(reader):
        kind, length, shift = (await reader.readexactly(1))[0] >> 4, 0, 0
        while True:
            byte = (await reader.readexactly(1))[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return kind, await reader.readexactly(length)
