"""MqttClient: one connection with a broker; paho-mqtt reads and writes when the event loop calls it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from slotwise.live.transport import KEEPALIVE, Message
from slotwise.live.transport.broker import Broker

ANSWER_TIMEOUT = 10.0  # seconds for the broker to accept a connection, a subscription or the end
PUBLISH_TIMEOUT = 600.0  # seconds; a large model takes long on a slow link
MOST_IN_FLIGHT = 100  # messages that the broker has not acknowledged
UNSPECIFIED = 0x80  # the reason code that paho gives to a connection that has only ended
LONGEST_PAUSE = 1.0  # seconds between two looks at how long the connection has been silent


class MqttError(Exception):
    """A connection failed, or the broker refused something, maybe with a reason code of MQTT."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class MqttClient:
    """One connection with a broker; an async context manager, to be used once.

    ``receive`` is called with every message. The broker publishes the ``will`` if the connection is lost.

    Only public functions of paho are used. It has no callback for what it cannot write at once, so it writes
    packets right away, without a wake-up of the event loop; `_continue_writing` sees to what is left.
    """

    def __init__(
        self,
        broker: Broker,
        identifier: str | None = None,
        *,
        receive: Callable[[Message], None] = lambda _: None,
        will: Message | None = None,
        keepalive: int = KEEPALIVE,
    ) -> None:
        self._broker, self._receive, self._keepalive = broker, receive, keepalive
        self._loop = asyncio.get_running_loop()
        self._errors = _FirstError()
        self._paho = self._make_paho(identifier, will)
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._answers: dict[int, asyncio.Future[Any]] = {}  # of the broker, by the number of the request
        self._in_flight = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._written, self._ended = asyncio.Event(), asyncio.Event()
        self._written.set()
        self._error = MqttError("not connected")
        self._timer: asyncio.TimerHandle | None = None

    def _make_paho(self, identifier: str | None, will: Message | None) -> Client:
        paho = Client(
            CallbackAPIVersion.VERSION2,
            client_id=identifier,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        paho.enable_logger(self._errors.logger)
        paho.max_inflight_messages_set(0)  # they are limited here
        paho.connect_timeout = ANSWER_TIMEOUT
        if self._broker.user is not None:
            paho.username_pw_set(self._broker.user, self._broker.password)
        # The files are read again for each connection: certificates may have been renewed.
        if (context := self._broker.tls_context()) is not None:
            paho.tls_set_context(context)
        if will is not None:
            paho.will_set(will.topic, will.payload, qos=1)
        return paho

    async def __aenter__(self) -> Self:
        """Connect; raises an MqttError if that fails or the broker refuses it."""
        try:
            await self._open_socket()
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._connected
        except TimeoutError:
            self._abandon()
            raise MqttError("the broker does not answer") from None
        except BaseException:
            self._abandon()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect, so that the broker does not publish the will."""
        self._paho.disconnect()
        self._continue_writing()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._ended.wait()
        self._abandon()

    @property
    def socket(self) -> Any:
        """The socket; None without a connection."""
        return self._paho.socket()

    async def ended(self) -> None:
        """Wait for the end of the connection; raises the MqttError that says why it has ended."""
        await self._ended.wait()
        raise self._error

    async def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Publish a message; wait until the broker has acknowledged it, with QoS 0 until it is written.

        Raises:
            MqttError: the connection is lost, or the broker does not acknowledge.
        """
        if qos:
            async with self._in_flight:
                await self._until_written()
                request = self._paho.publish(topic, payload, qos, retain)
                await self._answer_to(request.mid, PUBLISH_TIMEOUT)
            return
        await self._until_written()
        # Nobody waits for the acknowledgement of this message, which paho makes up at some expense.
        self._paho.on_publish = None
        try:
            self._paho.publish(topic, payload, qos, retain)
        finally:
            self._paho.on_publish = self._on_publish
        self._continue_writing()
        await self._written.wait()
        self._require_connection()

    async def _until_written(self) -> None:
        """Wait until paho has nothing to write: at most one of these messages at a time is in its memory."""
        while not self._written.is_set():
            await self._written.wait()
        self._require_connection()

    async def subscribe(self, topics: Sequence[str]) -> list[ReasonCode]:
        """Subscribe to topics with QoS 1; return an answer for each. The request is sent at once."""
        self._require_connection()
        _, request = self._paho.subscribe([(topic, 1) for topic in topics])
        if request is None:
            raise MqttError("not sent")
        answers: list[ReasonCode] = await self._answer_to(request, ANSWER_TIMEOUT)
        return answers

    async def _answer_to(self, request: int, timeout: float) -> Any:
        self._continue_writing()
        self._require_connection()
        answer = self._answers[request] = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise MqttError("the broker does not answer") from None
        finally:
            del self._answers[request]

    def _require_connection(self) -> None:
        if self._ended.is_set():
            raise self._error

    async def _open_socket(self) -> None:
        """Connect, with TLS if wanted, in a thread: looking up a name and a handshake block."""
        self._paho.on_socket_register_write = lambda *_: None  # nothing is written in that thread
        opening = self._loop.run_in_executor(
            None, self._paho.connect, self._broker.host, self._broker.port, self._keepalive
        )
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on and closes what it has opened; nothing was sent, so there is no will.
            opening.add_done_callback(self._close_late)
            raise
        except (OSError, ValueError) as error:
            raise MqttError(str(error)) from None
        self._paho.on_socket_register_write = None
        connection: Any = self._paho.socket()
        # Otherwise a grant may wait 40 ms for the acknowledgement of the message before.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # From here on all calls of paho are in this thread.
        self._paho.on_connect, self._paho.on_disconnect = self._on_connect, self._on_disconnect
        self._paho.on_subscribe, self._paho.on_publish = self._on_subscribe, self._on_publish
        self._paho.on_message, self._paho.on_socket_close = self._on_message, self._on_socket_close
        self._loop.add_reader(connection.fileno(), self._read)
        self._loop.call_soon(self._read)  # TLS may have received more than the handshake
        self._continue_writing()
        self._check_silence()

    def _close_late(self, opening: asyncio.Future[Any]) -> None:
        if opening.exception() is None:
            self._abandon()

    def _read(self) -> None:
        while (connection := self._paho.socket()) is not None:
            self._call(self._paho.loop_read)
            # What TLS has decrypted already does not wake the event loop.
            if not (isinstance(connection, ssl.SSLSocket) and self._is_open and connection.pending()):
                break
        self._continue_writing()

    def _write(self) -> None:
        self._call(self._paho.loop_write)
        self._continue_writing()

    def _check_silence(self) -> None:
        self._call(self._paho.loop_misc)  # sends a ping if it is time
        self._continue_writing()
        if self._is_open:
            pause = min(LONGEST_PAUSE, self._keepalive / 4)
            self._timer = self._loop.call_later(pause, self._check_silence)

    def _call(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception as error:  # such as a packet that cannot be read: connect again
            self._end(MqttError(str(error)))
            self._abandon()

    @property
    def _is_open(self) -> bool:
        return self._paho.socket() is not None and not self._ended.is_set()

    def _continue_writing(self) -> None:
        """Write the rest of what paho has, if there is any, when the socket can take it."""
        connection = self._paho.socket()
        if connection is None:
            self._written.set()
        elif self._paho.want_write():
            if self._written.is_set():
                self._written.clear()
                self._loop.add_writer(connection.fileno(), self._write)
        elif not self._written.is_set():
            self._loop.remove_writer(connection.fileno())
            self._written.set()

    def _end(self, error: MqttError) -> None:
        """Give the error that ended the connection to all who wait for something."""
        if self._ended.is_set():
            return
        self._error = error
        self._ended.set()
        for waiting in (self._connected, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(error)

    def _abandon(self) -> None:
        """Close the connection at once if it is open."""
        self._connected.cancel()
        self._end(MqttError("disconnected"))
        if self._timer is not None:
            self._timer.cancel()
        if (connection := self._paho.socket()) is not None and connection.fileno() >= 0:
            self._forget(connection)
            connection.close()
        self._written.set()

    def _forget(self, connection: Any) -> None:
        self._loop.remove_reader(connection.fileno())
        self._loop.remove_writer(connection.fileno())

    def _on_connect(
        self, _paho: object, _data: object, _flags: object, reason: ReasonCode, *_: object
    ) -> None:
        if self._connected.done():
            return
        if reason.is_failure:
            self._end(MqttError(str(reason), reason.value))
        else:
            self._connected.set_result(None)

    def _on_disconnect(
        self, _paho: object, _data: object, _flags: object, reason: ReasonCode, *_: object
    ) -> None:
        text = "connection lost" if reason.value == UNSPECIFIED else str(reason)
        self._end(MqttError(self._errors.text or text, reason.value))

    def _on_socket_close(self, _paho: object, _data: object, connection: Any) -> None:
        if connection.fileno() < 0:
            return
        self._forget(connection)
        # A broker that refuses a certificate sends an alert and closes; writing may fail first.
        if isinstance(connection, ssl.SSLSocket) and not self._ended.is_set():
            try:
                connection.recv(1)
            except OSError as error:
                if "_ALERT_" in str(error):
                    self._errors.text = str(error)

    def _on_message(self, _paho: object, _data: object, message: MQTTMessage) -> None:
        self._receive(Message(message.topic, bytes(message.payload), bool(message.retain)))

    def _on_publish(self, _paho: object, _data: object, request: int, reason: ReasonCode, *_: object) -> None:
        self._set_answer(request, reason)

    def _on_subscribe(
        self, _paho: object, _data: object, request: int, reasons: list[ReasonCode], *_: object
    ) -> None:
        self._set_answer(request, reasons)

    def _set_answer(self, request: int, answer: object) -> None:
        waiting = self._answers.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


class _FirstError(logging.Handler):
    """The first error that paho logs: why a connection broke is reported nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self.logger = logging.Logger("slotwise.mqtt", logging.ERROR)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text = self.text or record.getMessage()
