"""The channel on MQTT 3.1.1, which every broker supports. A lost connection is retried forever."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

from aiomqtt import Client, MqttError, Will

from slotwise.errors import UserError
from slotwise.live.transport import KEEPALIVE, Arrival, Connected, Message
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.mqtt_connection import RETRY_INTERVAL, Outages, rejection, try_connecting

_SILENT_LOGGER = logging.Logger("slotwise.mqtt")  # reconnects are handled here
_SILENT_LOGGER.addHandler(logging.NullHandler())
SHORT, MANY = 5.0, 5  # so many connections in a row, each of less than so many seconds, are reported
FAILURE = 0x80  # return codes of a refused subscription begin here
PUBLISH_TIMEOUT = 600.0  # seconds; a large model takes long on a slow link
PUBLISH_RETRY = 0.05  # seconds
# Without TCP_NODELAY a grant may wait 40 ms for the acknowledgement of the message before.
NO_DELAY = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)


class _RefusedSubscription(NamedTuple):
    topic: str


class _Writer:
    """Writes messages of a connected client at once; the rest when the socket can take it.

    aiomqtt asks the event loop before each write: three iterations and half a dozen system calls, although
    the socket would have taken the message right away. This relies on aiomqtt using paho, and on paho's
    socket, and on no other internals.
    """

    def __init__(self, client: Client) -> None:
        self._paho = client._client
        # Without this callback paho writes by itself. When there is nothing more to write, or no socket, it
        # still calls aiomqtt, which removes the writer added below.
        self._paho.on_socket_register_write = None
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()

    async def send(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Write a message without acknowledgement; waits only for what the socket does not take at once.

        Raises:
            MqttError: the connection is lost.
        """
        if self._paho.publish(topic, payload, 0, retain).rc != 0:
            raise MqttError("not sent")
        if self._paho.want_write():
            self.write_rest()
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


class MqttChannel:
    """One client of a broker; made by `connected_channel`.

    Attributes:
        connections: how many connections there have been.
    """

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
        self._writer: _Writer | None = None
        self._up = asyncio.Event()
        self.connections = 0
        self._waiting: WeakSet[asyncio.Timeout] = WeakSet()  # for an answer of the broker
        self._requests: set[asyncio.Task[None]] = set()
        self._topics: set[str] = set()
        self._inbox: asyncio.Queue[Arrival | _RefusedSubscription] = asyncio.Queue()

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return self._up.is_set()

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Publish with QoS 1 and wait for the broker (after a reconnect it may be sent twice), or with QoS 0.

        QoS 0 takes half as many packets.
        """
        while True:
            await self._up.wait()
            assert self._client is not None
            assert self._writer is not None
            with suppress(MqttError, TimeoutError):
                async with self._while_connected():
                    if not acknowledged:
                        await self._writer.send(topic, payload, retain=retain)
                    else:
                        asyncio.get_running_loop().call_soon(self._writer.write_rest)
                        await self._client.publish(topic, payload, 1, retain, timeout=PUBLISH_TIMEOUT)
                return
            await asyncio.sleep(PUBLISH_RETRY)

    def _while_connected(self) -> asyncio.Timeout:
        """Return a context that a lost connection ends with TimeoutError; nothing else would end the wait."""
        limit = asyncio.timeout(None)
        self._waiting.add(limit)
        return limit

    async def subscribe(self, *topics: str) -> None:
        """Subscribe to topics. Does not wait for the broker, which handles requests in order."""
        self._topics.update(topics)
        if self._up.is_set() and self._client is not None:
            await self._begin(self._request(self._client, sorted(topics)))

    async def _begin(self, request: Coroutine[Any, Any, object]) -> None:
        """Send a request now; if the connection is lost before the answer, the next one repeats it."""

        async def answered() -> None:
            with suppress(MqttError):
                await request

        task = asyncio.create_task(answered())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        await asyncio.sleep(0)  # the task runs up to its first wait, which is after sending

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in.

        Raises:
            UserError: the broker refuses a subscription.
        """
        while True:
            arrival = await self._inbox.get()
            if isinstance(arrival, _RefusedSubscription):
                raise UserError(f"the broker refuses the subscription to {arrival.topic}")
            yield arrival

    async def stay_connected(self) -> None:
        """Connect again and again, until cancelled."""
        short = 0
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
            await asyncio.sleep(RETRY_INTERVAL)

    async def _one_connection(self) -> None:
        try:
            async with self._make_client(queue_type=_forwarding_to(self._inbox)) as client:
                self.connections += 1
                self._inbox.put_nowait(Connected(self.connections))
                self._writer, self._client = _Writer(client), client
                await self._subscribe_all(client)
                self._up.set()
                self._outages.over(self._identifier)
                async for _ in client.messages:  # messages are forwarded; this only waits for the end
                    pass
        finally:
            self._up.clear()
            for limit in list(self._waiting):
                with suppress(RuntimeError):  # it has its answer already
                    limit.reschedule(0.0)

    async def _subscribe_all(self, client: Client) -> None:
        """Subscribe to all topics, also those that are added meanwhile."""
        done: set[str] = set()
        while missing := self._topics - done:
            await self._request(client, sorted(missing))
            done |= missing

    async def _request(self, client: Client, topics: Sequence[str]) -> None:
        """Subscribe; a refusal is an error, because messages that do not come would not be missed."""
        answers = await client.subscribe([(topic, 1) for topic in topics])
        for topic, answer in zip(topics, answers, strict=False):
            code = answer if isinstance(answer, int) else getattr(answer, "value", 0)
            if code >= FAILURE:
                self._inbox.put_nowait(_RefusedSubscription(topic))


def _forwarding_to(inbox: asyncio.Queue[Arrival | _RefusedSubscription]) -> type[asyncio.Queue[Any]]:
    """Return a queue type for aiomqtt, which would start a task for every message taken from its own."""

    class Forwarding(asyncio.Queue[Any]):
        def put_nowait(self, item: Any) -> None:
            payload = item.payload if isinstance(item.payload, bytes) else b""
            inbox.put_nowait(Message(str(item.topic), payload, bool(item.retain)))

    return Forwarding


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
) -> AsyncIterator[MqttChannel]:
    """Open a channel that has been connected once; from then on lost connections are made again.

    Args:
        broker: the broker.
        identifier: the client identifier; of two clients with the same the broker keeps the newer.
        will: the last will, which the broker publishes when the connection is lost.
        keepalive: seconds of silence after which client and broker check the connection.
        timeout: seconds for which a broker that does not answer is retried.
        notice: called with lines about the connection.
        outages: shared by the clients of a process, so that an outage is reported once.

    Raises:
        UserError: the broker cannot be reached, or rejects this client.
    """
    make_client = partial(
        _client, broker, identifier=identifier, keepalive=keepalive, tls_context=broker.tls_context()
    )
    await try_connecting(make_client, broker, timeout, notice)
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


def _client(broker: Broker, *, logger: logging.Logger = _SILENT_LOGGER, **options: Any) -> Client:
    return Client(
        broker.host,
        broker.port,
        username=broker.user,
        password=broker.password,
        max_inflight_messages=100,
        socket_options=NO_DELAY,
        logger=logger,
        **options,
    )
