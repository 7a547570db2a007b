"""The line to a broker: messages go out at once, without a turn of the event loop for each."""

from __future__ import annotations

import asyncio

from aiomqtt import Client, MqttError


class Line:
    """What a connected client writes. What the socket does not take at once is written when it can be.

    aiomqtt has the event loop tell it when it may write, for every message anew: three turns of the loop and
    half a dozen system calls, where the socket would have taken it right away. That it has such a socket,
    and paho to write on it, is all that this knows of its inside.
    """

    def __init__(self, client: Client) -> None:
        self._paho = client._client
        # With nobody to ask for a turn, paho writes by itself. That there is no more to write, or nothing to
        # write on, it still tells aiomqtt, which takes the writer below away.
        self._paho.on_socket_register_write = None
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()

    async def send(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Write a message that nobody acknowledges; waits only while there is more than the socket takes.

        Raises:
            MqttError: the connection is lost.
        """
        if self._paho.publish(topic, payload, 0, retain).rc != 0:
            raise MqttError("not sent")
        if self._paho.want_write():
            self.write_the_rest()
            await self._drained.wait()
        if self._paho.socket() is None:
            raise MqttError("not sent")

    def write_the_rest(self) -> None:
        """See to what has been left, if anything has."""
        socket = self._paho.socket()
        if socket is not None and self._paho.want_write():
            self._drained.clear()
            self._loop.add_writer(socket.fileno(), self._write)
        else:
            self._drained.set()

    def _write(self) -> None:
        self._paho.loop_write()
        if self._paho.socket() is None or not self._paho.want_write():
            self._drained.set()
