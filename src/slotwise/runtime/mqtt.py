"""The channel on MQTT 3.1.1, which every broker speaks. A lost connection is made again, for ever."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from aiomqtt import Client, MqttCodeError, MqttError, Will

from slotwise.errors import InputError, UserError
from slotwise.runtime.channel import Arrival, Connected, Message

KEEPALIVE = 10  # seconds; a client that is silent for one and a half times as long is dead to the broker
SECONDS_BETWEEN_TRIES = 0.5
LONGEST_PUBLISH = 600.0  # seconds; a large model takes its time on a slow link
# Small messages go out at once: otherwise a grant may wait 40 ms for the acknowledgement of the one before.
AT_ONCE = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
PORTS = {"mqtt": 1883, "mqtts": 8883}
_REFUSED = {
    4: "wrong user or password",
    5: "not authorised",
    134: "wrong user or password",
    135: "not authorised",
}


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
    password: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    channel: str | None = None

    def __str__(self) -> str:
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}"

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


class MqttChannel:
    """One client of a broker; `connected_channel` makes it."""

    def __init__(self, make_client: Callable[[type[asyncio.Queue[Any]]], Client]) -> None:
        self._make_client = make_client
        self._client: Client | None = None
        self._up = asyncio.Event()
        self._waiting: WeakSet[asyncio.Timeout] = WeakSet()  # for an answer of the broker
        self._requests: set[asyncio.Task[None]] = set()
        self._topics: set[str] = set()
        self._inbox: asyncio.Queue[Arrival] = asyncio.Queue()

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
            with suppress(MqttError, TimeoutError):
                async with self._while_connected():
                    assert self._client is not None
                    await self._client.publish(
                        topic, payload, int(acknowledged), retain, timeout=LONGEST_PUBLISH
                    )
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
            await self._begin(self._client.subscribe([(topic, 1) for topic in topics]))

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
        """What comes in."""
        while True:
            yield await self._inbox.get()

    async def stay(self) -> None:
        """Keep a connection, until cancelled."""
        while True:
            with suppress(Exception):  # whatever has broken it, it is made again
                await self._one_connection()
            await asyncio.sleep(SECONDS_BETWEEN_TRIES)

    async def _one_connection(self) -> None:
        try:
            async with self._make_client(_passing_on_to(self._inbox)) as client:
                await self._subscribe_all(client)
                self._client = client
                self._up.set()
                self._inbox.put_nowait(Connected())
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
            await client.subscribe([(topic, 1) for topic in sorted(missing)])
            done |= missing


def _passing_on_to(inbox: asyncio.Queue[Arrival]) -> type[asyncio.Queue[Any]]:
    """A client's own queue that holds nothing: aiomqtt would start a task for every message taken from it."""

    class PassingOn(asyncio.Queue[Any]):
        def put_nowait(self, item: Any) -> None:
            payload = item.payload if isinstance(item.payload, bytes) else b""
            inbox.put_nowait(Message(str(item.topic), payload))

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
) -> AsyncIterator[MqttChannel]:
    """A channel that is connected once; from then on a lost connection is made again without a word.

    Args:
        broker: where to.
        identifier: the client's name; of two with the same name the broker keeps the newer.
        will: what the broker publishes when this client vanishes.
        keepalive: seconds of silence after which the two ask whether the other is still there.
        patience: seconds for which a broker that does not answer is tried again.
        waiting: is told why it takes so long.

    Raises:
        UserError: it cannot be reached, or lets nobody in who comes like this.
    """
    context = broker.context()

    def make_client(
        logger: logging.Logger | None = None, queue_type: type[asyncio.Queue[Any]] | None = None
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

    await _try_out(broker, make_client, patience, waiting)
    channel = MqttChannel(partial(make_client, None))
    staying = asyncio.create_task(channel.stay())
    try:
        yield channel
    finally:
        staying.cancel()
        with suppress(asyncio.CancelledError):
            await staying


class _Complaint(logging.Handler):
    """The first thing the MQTT library finds wrong and tells nobody but its log.

    A broker that refuses a certificate breaks the connection off; without this that looks like a broker that
    does not answer.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._loop = asyncio.get_running_loop()
        self.text: asyncio.Future[str] = self._loop.create_future()

    def emit(self, record: logging.LogRecord) -> None:
        """Called from whatever thread it happens in."""
        self._loop.call_soon_threadsafe(self._note, record.getMessage())

    def _note(self, text: str) -> None:
        if not self.text.done():
            self.text.set_result(text)


async def _connect_once(make_client: Callable[[logging.Logger], Client]) -> None:
    """Connect and disconnect.

    Raises:
        MqttError: why that did not work.
    """
    complaint, logger = _Complaint(), logging.Logger("slotwise.mqtt")
    logger.addHandler(complaint)
    client = make_client(logger)
    entering = asyncio.ensure_future(client.__aenter__())
    outcomes: set[asyncio.Future[Any]] = {entering, complaint.text}
    await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        raise MqttError(complaint.text.result())
    await entering
    await client.__aexit__(None, None, None)


async def _try_out(
    broker: Broker,
    make_client: Callable[[logging.Logger], Client],
    patience: float,
    waiting: Callable[[str], None] | None,
) -> None:
    """Connect once, to tell mistakes apart from a connection that is lost later."""
    until = asyncio.get_running_loop().time() + patience
    while True:
        try:
            await _connect_once(make_client)
        except (MqttError, ssl.SSLError) as error:
            if isinstance(error, MqttCodeError) and getattr(error.rc, "value", None) in _REFUSED:
                raise UserError(f"{broker} lets nobody in like this: {error.rc}") from None
            cut_off = broker.certificate is not None and "EOF occurred" in str(
                error
            )  # an alert that got lost
            if "_ALERT_" in str(error) or cut_off:
                raise UserError(
                    f"{broker} refuses this client's certificate, or that it has none ({error})"
                ) from None
            if "CERTIFICATE_VERIFY_FAILED" in str(error) or "certificate" in str(error).lower():
                raise UserError(f"{broker}: its certificate is not trusted ({error}); see --ca") from None
            if asyncio.get_running_loop().time() >= until:
                raise UserError(f"cannot reach a broker at {broker} ({error})") from None
            if waiting is not None:
                waiting(str(error))
        else:
            return
        await asyncio.sleep(SECONDS_BETWEEN_TRIES)
