"""The channel on MQTT 3.1.1, which every broker supports.

Errors of the first connection are reported; a connection that is lost later is retried forever.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakSet

from aiomqtt import Client, MqttError, Will

from slotwise.base.errors import UserError
from slotwise.live.transport import KEEPALIVE, Arrival, Connected, Message
from slotwise.live.transport.arrival_queue import ArrivalQueue
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.connecting import rejection, try_connecting
from slotwise.live.transport.outages import Backoff, Outages

_SILENT_LOGGER = logging.Logger("slotwise.mqtt")  # reconnects are handled here
_SILENT_LOGGER.setLevel(logging.CRITICAL)  # the library describes every packet otherwise
_SILENT_LOGGER.addHandler(logging.NullHandler())
SHORT, MANY = 5.0, 5  # so many connections in a row, each of less than so many seconds, are reported
FAILURE = 0x80  # return codes of a refused subscription begin here
PUBLISH_TIMEOUT = 600.0  # seconds; a large model takes long on a slow link
PUBLISH_RETRY = 0.05  # seconds
# Without TCP_NODELAY a grant may wait 40 ms for the acknowledgement of the message before.
NO_DELAY = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)


class MqttChannel:
    """One client of a broker; made by `connected_channel`."""

    def __init__(
        self,
        make_client: Callable[..., Client],
        identifier: str,
        broker: Broker,
        outages: Outages,
        notice: Callable[[str], None],
    ) -> None:
        self._make_client, self._identifier, self._broker = make_client, identifier, broker
        self._outages, self._notice = outages, notice
        self._client: Client | None = None
        self._writer: MqttWriter | None = None
        self._up = asyncio.Event()
        self.connections = 0
        self._waiting: WeakSet[asyncio.Timeout] = WeakSet()  # for an answer of the broker
        self._requests: set[asyncio.Task[None]] = set()
        self._topics: set[str] = set()
        self._inbox = ArrivalQueue()

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return self._up.is_set()

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Publish with QoS 1 (after a reconnect maybe twice), or with QoS 0, which takes half the packets."""
        while True:
            await self._up.wait()
            assert self._client is not None
            assert self._writer is not None
            with suppress(MqttError, TimeoutError):
                if not acknowledged and self._writer.write(topic, payload, retain=retain):
                    return
                limit = asyncio.timeout(None)  # ended by a lost connection: nothing else would end the wait
                self._waiting.add(limit)
                async with limit:
                    if not acknowledged:
                        await self._writer.drain()
                    else:
                        # MqttWriter has taken over writing from aiomqtt, so it has to write what the socket
                        # does not take of the next line's message. It runs when that line waits.
                        asyncio.get_running_loop().call_soon(self._writer.write_rest)
                        await self._client.publish(topic, payload, 1, retain, timeout=PUBLISH_TIMEOUT)
                return
            await asyncio.sleep(PUBLISH_RETRY)

    async def subscribe(self, *topics: str) -> None:
        """Subscribe to topics. Does not wait for the broker, which handles requests in order."""
        # Noted first: without a connection, or if it is lost now, the next one subscribes to them.
        self._topics.update(topics)
        if self._up.is_set() and (client := self._client) is not None:

            async def request() -> None:
                with suppress(MqttError):  # if the connection is lost now, the next one repeats the request
                    await self._request(client, sorted(topics))

            task = asyncio.create_task(request())
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
            await asyncio.sleep(0)  # the task runs up to its first wait, which is after sending

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in, or raise a UserError if the broker refuses a subscription."""
        return self._inbox.arrivals()

    async def stay_connected(self) -> None:
        """Connect again and again, until cancelled."""
        short, backoff = 0, Backoff()
        while True:
            began, before, reason = time.monotonic(), self.connections, None
            try:
                await self._one_connection()
            except Exception as error:  # whatever ended the connection, it is made again
                reason = error
            if (this := asyncio.current_task()) is not None and this.cancelling():
                raise asyncio.CancelledError  # aiomqtt may have replaced it by another error
            if self.connections > before:
                short = short + 1 if time.monotonic() - began < SHORT else 0
            if self.connections == before or short <= 1:  # of several short connections, report the first
                why = None if reason is None else rejection(reason, self._broker)
                self._outages.lost(self._identifier, why)
            if short == MANY:
                self._notice("connections do not last; is there another client with the same number?")
            lasted = time.monotonic() - began if self.connections > before else 0.0
            await asyncio.sleep(backoff.next(reason, lasted))

    async def _one_connection(self) -> None:
        inbox = self._inbox

        def forward(client: object, data: object, message: Any) -> None:
            del client, data
            inbox.put(Message(message.topic, message.payload, bool(message.retain)))

        try:
            async with self._make_client() as client:
                self.connections += 1
                # Before `forward` is set, so that no message of this connection comes before Connected.
                inbox.put(Connected(self.connections))
                client._client.on_message = forward  # aiomqtt would start a task for every message
                self._writer, self._client = MqttWriter(client), client
                done: set[str] = set()
                while missing := self._topics - done:  # also topics that are added meanwhile
                    await self._request(client, sorted(missing))
                    done |= missing
                # Publishers wait for all subscriptions, or they could miss the answers to their messages.
                self._up.set()
                self._outages.over(self._identifier)
                async for _ in client.messages:  # messages are forwarded; this only waits for the end
                    pass
        finally:
            self._up.clear()
            # Publishers that wait for an answer of this connection repeat their message on the next one.
            for limit in list(self._waiting):
                with suppress(RuntimeError):  # it has its answer already
                    limit.reschedule(0.0)

    async def _request(self, client: Client, topics: Sequence[str]) -> None:
        """Subscribe; a refusal is an error, because messages that do not come would not be missed."""
        answers = await client.subscribe([(topic, 1) for topic in topics])
        for topic, answer in zip(topics, answers, strict=False):
            code = answer if isinstance(answer, int) else getattr(answer, "value", 0)
            if code >= FAILURE:
                self._inbox.put(UserError(f"the broker refuses the subscription to {topic}"))


@asynccontextmanager
async def connected_channel(
    broker: Broker,
    identifier: str,
    *,
    will: Message | None = None,
    keepalive: int = KEEPALIVE,
    timeout: float = 0.0,
    notice: Callable[[str], None] = lambda _: None,
    outages: Outages | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> AsyncIterator[MqttChannel]:
    """Open a channel that has been connected once; from then on lost connections are made again.

    Of two clients with the same ``identifier`` the broker keeps the newer. It publishes the ``will`` when the
    connection is lost; after ``keepalive`` seconds of silence client and broker check the connection. For
    ``timeout`` seconds a broker that does not answer is retried, unless ``stopped()``. ``notice`` is called
    with lines about the connection; the clients of a process share ``outages``, so that an outage is reported
    once.
    """
    client_of = partial(
        Client,
        broker.host,
        broker.port,
        username=broker.user,
        password=broker.password,
        identifier=identifier,
        keepalive=keepalive,
        max_inflight_messages=100,
        socket_options=NO_DELAY,
        logger=_SILENT_LOGGER,
    )

    def make_client(**more: Any) -> Client:
        # The files are read again for each connection: certificates may have been renewed.
        return client_of(tls_context=broker.tls_context(), **more)

    # This first connection has no last will, so the broker cannot report a device that has not begun as lost.
    await try_connecting(make_client, broker, timeout, notice, stopped)
    last_will = None if will is None else Will(will.topic, will.payload, qos=1)
    channel = MqttChannel(
        partial(make_client, will=last_will), identifier, broker, outages or Outages(notice), notice
    )
    staying = asyncio.create_task(channel.stay_connected())
    try:
        yield channel
    finally:
        staying.cancel()
        with suppress(asyncio.CancelledError):
            await staying


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
