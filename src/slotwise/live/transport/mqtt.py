"""The channel on MQTT 3.1.1, which every broker supports.

Errors of the first connection are reported; a connection that is lost later is retried forever.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakSet

from aiomqtt import Client, MqttCodeError, MqttError, Will

from slotwise.errors import UserError
from slotwise.live.transport import KEEPALIVE, Arrival, Connected, Message
from slotwise.live.transport.backoff import Backoff
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.mqtt_writer import MqttWriter
from slotwise.live.transport.outages import Outages

_SILENT_LOGGER = logging.Logger("slotwise.mqtt")  # reconnects are handled here
_SILENT_LOGGER.setLevel(logging.CRITICAL)  # the library describes every packet otherwise
_SILENT_LOGGER.addHandler(logging.NullHandler())
SHORT, MANY = 5.0, 5  # so many connections in a row, each of less than so many seconds, are reported
FAILURE = 0x80  # return codes of a refused subscription begin here
PUBLISH_TIMEOUT = 600.0  # seconds; a large model takes long on a slow link
PUBLISH_RETRY = 0.05  # seconds
REJECTED = (4, 5, 134, 135)  # wrong user or password, not authorised; in MQTT 3.1.1 and in paho
# Without TCP_NODELAY a grant may wait 40 ms for the acknowledgement of the message before.
NO_DELAY = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)


class _FirstError(logging.Handler):
    """The first error that the MQTT library logs and reports nowhere else.

    A broker that rejects a certificate closes the connection; without this it would look like a broker that
    does not answer.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._loop = asyncio.get_running_loop()
        self.text: asyncio.Future[str] = self._loop.create_future()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._keep, record.getMessage())  # may be called from any thread

    def _keep(self, text: str) -> None:
        if not self.text.done():
            self.text.set_result(text)


async def _try_connecting(
    make_client: Callable[..., Client], broker: Broker, timeout: float, notice: Callable[[str], None]
) -> None:
    """Connect once and disconnect; a broker that does not answer is retried for ``timeout`` seconds."""
    until, backoff = time.monotonic() + timeout, Backoff()
    while True:
        # A new logger for each attempt: its error must not be one of an earlier attempt.
        first_error, logger = _FirstError(), logging.Logger("slotwise.mqtt")
        logger.addHandler(first_error)
        client = make_client(logger=logger)
        entering = asyncio.ensure_future(client.__aenter__())
        outcomes: set[asyncio.Future[Any]] = {entering, first_error.text}
        try:
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
            if not entering.done():
                # After such an error the library would wait for its own timeout.
                entering.cancel()
                raise MqttError(first_error.text.result())
            await entering
            await client.__aexit__(None, None, None)
        except (MqttError, ssl.SSLError) as error:
            if why := rejection(error, broker):
                raise UserError(f"{broker}: {why}") from None
            if time.monotonic() >= until:
                raise UserError(f"cannot reach a broker at {broker} ({error})") from None
            notice(f"waiting for the broker at {broker} ({error})")
            pause = min(backoff.next(error, 0.0), max(0.0, until - time.monotonic()))
        else:
            return
        await asyncio.sleep(pause)


def rejection(error: Exception, broker: Broker) -> str | None:
    """Describe why broker or client reject each other; None if the connection only failed."""
    text = str(error)
    if isinstance(error, MqttCodeError) and getattr(error.rc, "value", None) in REJECTED:
        return f"broker rejected the login: {error.rc}"
    # With TLS 1.3 a client is connected before the broker has checked its certificate. The refusal comes
    # afterwards, as an alert or only as the end of the connection.
    alert_lost = broker.certificate is not None and "EOF occurred" in text
    if "_ALERT_" in text or alert_lost:
        return f"broker rejected this client's certificate, or that it has none ({text})"
    if "certificate" in text.lower():
        trusted = "the system's" if broker.ca is None else f"those in {broker.ca}"
        return f"certificate of the broker is not trusted ({text}); trusted are {trusted}"
    return None


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
        self._inbox: asyncio.Queue[Arrival | UserError] = asyncio.Queue()

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

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in, or raise a UserError if the broker refuses a subscription."""
        while True:
            arrival = await self._inbox.get()
            if isinstance(arrival, UserError):
                raise arrival
            yield arrival

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
            inbox.put_nowait(Message(message.topic, message.payload, bool(message.retain)))

        try:
            async with self._make_client() as client:
                self.connections += 1
                # Before `forward` is set, so that no message of this connection comes before Connected.
                inbox.put_nowait(Connected(self.connections))
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
                self._inbox.put_nowait(UserError(f"the broker refuses the subscription to {topic}"))


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

    Of two clients with the same ``identifier`` the broker keeps the newer. It publishes the ``will`` when the
    connection is lost; after ``keepalive`` seconds of silence client and broker check the connection. For
    ``timeout`` seconds a broker that does not answer is retried. ``notice`` is called with lines about the
    connection; the clients of a process share ``outages``, so that an outage is reported once.
    """
    make_client = partial(
        Client,
        broker.host,
        broker.port,
        username=broker.user,
        password=broker.password,
        identifier=identifier,
        keepalive=keepalive,
        tls_context=broker.tls_context(),
        max_inflight_messages=100,
        socket_options=NO_DELAY,
        logger=_SILENT_LOGGER,
    )
    # This first connection has no last will, so the broker cannot report a device that has not begun as lost.
    await _try_connecting(make_client, broker, timeout, notice)
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
