"""MqttWriter: writes messages of an MQTT client without asking the event loop first."""

from __future__ import annotations

import asyncio

from aiomqtt import Client, MqttError


class MqttWriter:
    """Writes messages of a connected client at once; the rest when the socket can take it.

    aiomqtt asks the event loop before each write: three iterations and half a dozen system calls, although
    the socket would have taken the message right away. This relies on aiomqtt using paho, and on paho's
    socket and callbacks, and on no other internals.
    """

    def __init__(self, client: Client) -> None:
        self._paho = client._client
        # Without this callback paho writes by itself. When there is nothing more to write, or no socket, it
        # still calls aiomqtt, which removes the writer added below.
        self._paho.on_socket_register_write = None
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()

    def write(self, topic: str, payload: bytes, *, retain: bool) -> bool:
        """Write a message with QoS 0; return whether the socket has taken all of it.

        Raises:
            MqttError: the connection is lost.
        """
        paho = self._paho
        # Nobody waits for the acknowledgement of this message, which paho makes up at some expense.
        acknowledge, paho.on_publish = paho.on_publish, None
        try:
            sent = paho.publish(topic, payload, 0, retain).rc == 0
        finally:
            paho.on_publish = acknowledge
        if not sent or paho.socket() is None:
            raise MqttError("not sent")
        if paho.want_write():
            self.write_rest()
            return False
        return True

    async def drain(self) -> None:
        """Wait until the socket has taken everything; raises an MqttError if the connection is lost."""
        await self._drained.wait()
        if self._paho.socket() is None:
            raise MqttError("not sent")

    def write_rest(self) -> None:
        """Write the rest, if there is any, when the socket can take it."""
        connection = self._paho.socket()
        if connection is not None and self._paho.want_write():
            self._drained.clear()
            self._loop.add_writer(connection.fileno(), self._write)
        else:
            self._drained.set()

    def _write(self) -> None:
        self._paho.loop_write()
        if self._paho.socket() is None or not self._paho.want_write():
            self._drained.set()
