"""The channel on MQTT 3.1.1, which every broker speaks. A lost connection is made again, for ever."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from aiomqtt import Client, MqttError, Will

from slotwise.errors import InputError, UserError
from slotwise.live.channel import KEEPALIVE, Arrival, Connected, Message
from slotwise.live.first_contact import SECONDS_BETWEEN_TRIES, try_out
from slotwise.live.line import Line
from slotwise.live.outages import Outage, Outages

_NOBODY = logging.Logger("slotwise.mqtt")  # whom the MQTT library may tell what is mended anyway
_NOBODY.addHandler(logging.NullHandler())
SHORT, MANY = 5.0, 5  # so many connections in a row that last less than so many seconds are worth a word
REFUSED = 0x80  # what a broker answers to a subscription that it does not take
LONGEST_PUBLISH = 600.0  # seconds; a large model takes its time on a slow link
# Small messages go out at once: otherwise a grant may wait 40 ms for the acknowledgement of the one before.
AT_ONCE = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True)
class Broker:
    """Where a broker is, and how to be let in.

    Attributes:
        host: its name or address.
        port: its port.
        tls: whether to speak TLS, and to accept only a certificate that is in order.
        user: name to log in with; None for a broker that asks for none.
        password: to log in with.
        ca: file of the certificates to trust; None trusts those the system does.
        certificate: file of this client's certificate, if the broker asks for one.
        key: file of its private key.
        channel: name of the only channel that it lets this client use; None if it does not care.
    """

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    channel: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host  # as addresses have IPv6
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """How TLS is spoken."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(path) for path in (self.ca, self.certificate, self.key) if path)
            raise UserError(f"cannot use the certificates {files}: {error.strerror or error}") from None
        return context


def broker_of(address: str) -> Broker:
    """The broker at ``mqtt://host[:port]`` or ``mqtts://host[:port]``."""
    allowed = "mqtt://HOST[:PORT] or mqtts://HOST[:PORT]"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError("broker", address, allowed) from None
    if parts.scheme not in PORTS or not host or parts.path.strip("/") or parts.username is not None:
        raise InputError("broker", address, allowed)
    return Broker(host, port or PORTS[parts.scheme], tls=parts.scheme == "mqtts")


class Unreadable(NamedTuple):
    """A topic that the broker does not let this client read."""

    topic: str


class MqttChannel:
    """One client of a broker; `connected_channel` makes it.

    Attributes:
        connections: how many there have been.
    """

    def __init__(
        self,
        make_client: Callable[[type[asyncio.Queue[Any]]], Client],
        waiting: Callable[[str], None] | None,
        outage: Outage,
    ) -> None:
        self._make_client, self._waiting_for, self._outage = make_client, waiting, outage
        self._client: Client | None = None
        self._line: Line | None = None
        self._up = asyncio.Event()
        self.connections = 0
        self._waiting: WeakSet[asyncio.Timeout] = WeakSet()  # for an answer of the broker
        self._requests: set[asyncio.Task[None]] = set()
        self._topics: set[str] = set()
        self._inbox: asyncio.Queue[Arrival | Unreadable] = asyncio.Queue()

    @property
    def connected(self) -> bool:
        """Whether there is a connection at the moment."""
        return self._up.is_set()

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Send, and wait until the broker has it (QoS 1); across a lost connection it may be sent twice.

        Or only send it (QoS 0), which takes half as many packets.
        """
        while True:
            await self._up.wait()
            assert self._client is not None
            assert self._line is not None
            with suppress(MqttError, TimeoutError):
                async with self._while_connected():
                    if not acknowledged:
                        await self._line.send(topic, payload, retain=retain)
                    else:
                        asyncio.get_running_loop().call_soon(self._line.write_the_rest)
                        await self._client.publish(topic, payload, 1, retain, timeout=LONGEST_PUBLISH)
                return
            await asyncio.sleep(0.05)

    def _while_connected(self) -> asyncio.Timeout:
        """A lost connection is a TimeoutError here: by itself, nothing would tell who waits for an answer."""
        limit = asyncio.timeout(None)
        self._waiting.add(limit)
        return limit

    async def subscribe(self, *topics: str) -> None:
        """Read topics from now on. It does not wait for the broker, which takes things in order."""
        self._topics.update(topics)
        if self._up.is_set() and self._client is not None:
            await self._begin(self._read(self._client, sorted(topics)))

    async def _begin(self, request: Coroutine[Any, Any, object]) -> None:
        """Send it now; a connection that is lost before the answer is made again with all topics."""

        async def answered() -> None:
            with suppress(MqttError):
                await request

        task = asyncio.create_task(answered())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        await asyncio.sleep(0)  # the task has its first turn, in which the request is sent

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """What comes in.

        Raises:
            UserError: the broker does not let this client read what it has to.
        """
        while True:
            arrival = await self._inbox.get()
            if isinstance(arrival, Unreadable):
                raise UserError(f"the broker refuses to send what is published as {arrival.topic}")
            yield arrival

    async def stay(self) -> None:
        """Keep a connection, until cancelled."""
        short = 0
        while True:
            began, before, broken_by = time.monotonic(), self.connections, None
            try:
                await self._one_connection()
            except Exception as error:  # whatever has broken it, it is made again
                broken_by = error
            if (this := asyncio.current_task()) is not None and this.cancelling():
                raise asyncio.CancelledError  # aiomqtt may have put another error in its place
            if self.connections > before:
                short = short + 1 if time.monotonic() - began < SHORT else 0
            if self.connections == before or short <= 1:  # of those that do not last, the first is told
                self._outage.begins(broken_by)
            if short == MANY and self._waiting_for is not None:
                self._waiting_for("connections do not last: is there another client with the same number?")
            await asyncio.sleep(SECONDS_BETWEEN_TRIES)

    async def _one_connection(self) -> None:
        try:
            async with self._make_client(_passing_on_to(self._inbox)) as client:
                self.connections += 1
                self._inbox.put_nowait(Connected(self.connections))
                self._line, self._client = Line(client), client
                await self._subscribe_all(client)
                self._up.set()
                self._outage.ends()
                async for _ in client.messages:  # they come by another way: this only waits for the end
                    pass
        finally:
            self._up.clear()
            for limit in list(self._waiting):
                with suppress(RuntimeError):  # has its answer already
                    limit.reschedule(0.0)

    async def _subscribe_all(self, client: Client) -> None:
        """All topics, those included that are added while this goes on."""
        done: set[str] = set()
        while missing := self._topics - done:
            await self._read(client, sorted(missing))
            done |= missing

    async def _read(self, client: Client, topics: Sequence[str]) -> None:
        """Subscribe. A broker that refuses will not do: what it does not send would never be missed."""
        answers = await client.subscribe([(topic, 1) for topic in topics])
        for topic, answer in zip(topics, answers, strict=False):
            code = answer if isinstance(answer, int) else getattr(answer, "value", 0)
            if code >= REFUSED:
                self._inbox.put_nowait(Unreadable(topic))


def _passing_on_to(inbox: asyncio.Queue[Arrival | Unreadable]) -> type[asyncio.Queue[Any]]:
    """A client's own queue that holds nothing: aiomqtt would start a task for every message taken from it."""

    class PassingOn(asyncio.Queue[Any]):
        def put_nowait(self, item: Any) -> None:
            payload = item.payload if isinstance(item.payload, bytes) else b""
            inbox.put_nowait(Message(str(item.topic), payload, bool(item.retain)))

    return PassingOn


@asynccontextmanager
async def connected_channel(
    broker: Broker,
    identifier: str,
    *,
    will: Message | None = None,
    keepalive: int = KEEPALIVE,
    patience: float = 0.0,
    waiting: Callable[[str], None] | None = None,
    outages: Outages | None = None,
) -> AsyncIterator[MqttChannel]:
    """A channel that is connected once; from then on a lost connection is made again.

    Args:
        broker: where to.
        identifier: the client's name; of two with the same name the broker keeps the newer.
        will: what the broker publishes when this client vanishes.
        keepalive: seconds of silence after which the two ask whether the other is still there.
        patience: seconds for which a broker that does not answer is tried again.
        waiting: is told why it takes so long.
        outages: are told when a connection is lost and made again.

    Raises:
        UserError: it cannot be reached, or lets nobody in who comes like this.
    """
    context = broker.context()

    def make_client(
        *,
        will: Message | None = None,
        logger: logging.Logger = _NOBODY,
        queue_type: type[asyncio.Queue[Any]] | None = None,
    ) -> Client:
        return Client(
            broker.host,
            broker.port,
            username=broker.user,
            password=broker.password,
            identifier=identifier,
            will=None if will is None else Will(will.topic, will.payload, qos=1),
            keepalive=keepalive,
            tls_context=context,
            max_inflight_messages=100,
            queue_type=queue_type,
            socket_options=AT_ONCE,
            logger=logger,
        )

    await try_out(make_client, broker, patience, waiting)
    outage = Outage(outages, identifier, broker)
    channel = MqttChannel(lambda queue_type: make_client(will=will, queue_type=queue_type), waiting, outage)
    staying = asyncio.create_task(channel.stay())
    try:
        yield channel
    finally:
        staying.cancel()
        with suppress(asyncio.CancelledError):
            await staying
