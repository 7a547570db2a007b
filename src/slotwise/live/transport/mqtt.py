"""The channel on MQTT 3.1.1, which every broker supports.

Errors of the first connection are reported; a connection that is lost later is retried forever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from slotwise.base.errors import UserError
from slotwise.live.transport import KEEPALIVE, Arrival, Connected, Message
from slotwise.live.transport.arrival_queue import ArrivalQueue
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.connecting import rejection, try_connecting
from slotwise.live.transport.mqtt_client import MqttClient, MqttError
from slotwise.live.transport.outages import Backoff, Outages

SHORT, MANY = 5.0, 5  # so many connections in a row, each of less than so many seconds, are reported
PUBLISH_RETRY = 0.05  # seconds


class MqttChannel:
    """One client of a broker; made by `connected_channel`."""

    def __init__(
        self,
        make_client: Callable[[], MqttClient],
        inbox: ArrivalQueue,
        identifier: str,
        broker: Broker,
        outages: Outages,
        notice: Callable[[str], None],
    ) -> None:
        self._make_client, self._inbox = make_client, inbox
        self._identifier, self._broker = identifier, broker
        self._outages, self._notice = outages, notice
        self._client: MqttClient | None = None
        self._up = asyncio.Event()
        self.connections = 0
        self._requests: set[asyncio.Task[None]] = set()
        self._topics: set[str] = set()

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
            with suppress(MqttError):
                await self._client.publish(topic, payload, qos=int(acknowledged), retain=retain)
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
        try:
            async with self._make_client() as client:
                self.connections += 1
                self._inbox.put(Connected(self.connections))
                self._client = client
                done: set[str] = set()
                while missing := self._topics - done:  # also topics that are added meanwhile
                    await self._request(client, sorted(missing))
                    done |= missing
                # Publishers wait for all subscriptions, or they could miss the answers to their messages.
                self._up.set()
                self._outages.over(self._identifier)
                await client.ended()
        finally:
            self._up.clear()

    async def _request(self, client: MqttClient, topics: Sequence[str]) -> None:
        """Subscribe; a refusal is an error, because messages that do not come would not be missed."""
        for topic, answer in zip(topics, await client.subscribe(topics), strict=False):
            if answer.is_failure:
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
    client_of = partial(MqttClient, broker, identifier, keepalive=keepalive)
    # This first connection has no last will, so the broker cannot report a device that has not begun as lost.
    await try_connecting(client_of, broker, timeout, notice, stopped)
    inbox = ArrivalQueue()
    make_client = partial(client_of, receive=inbox.put, will=will)
    channel = MqttChannel(make_client, inbox, identifier, broker, outages or Outages(notice), notice)
    staying = asyncio.create_task(channel.stay_connected())
    try:
        yield channel
    finally:
        staying.cancel()
        with suppress(asyncio.CancelledError):
            await staying
