"""A broker of our own, for a trial on one machine: amqtt in this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from slotwise.errors import UserError
from slotwise.live.mqtt import Broker

LOOPBACK = "127.0.0.1"
LOOPBACKS = {"0.0.0.0": LOOPBACK, "::": "::1"}  # where a broker that listens everywhere is reached from here
FAREWELL = 3.0  # seconds without anybody leaving, after which those who are still there are not waited for
SECONDS_BETWEEN_LOOKS = 0.1


class _Subscriptions(dict[str, Any]):
    """Who reads what. amqtt goes through it and waits meanwhile, so it goes through a copy."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().keys()))

    def items(self) -> Any:
        """As they are now."""
        return list(super().items())


@asynccontextmanager
async def embedded_broker(port: int, host: str = LOOPBACK) -> AsyncIterator[Broker]:
    """A broker that lets everybody in who reaches ``host``; for more than a trial, use a real one.

    Raises:
        UserError: the port is taken.
    """
    from amqtt.broker import Broker as AmqttBroker  # noqa: PLC0415  (slow to import)
    from amqtt.errors import BrokerError  # noqa: PLC0415

    for name in ("amqtt", "transitions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    broker = AmqttBroker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"{host}:{port}"}},  # IPv6 without brackets
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
    )
    broker._subscriptions = _Subscriptions()
    try:
        await broker.start()
    except BrokerError as error:
        raise UserError(f"cannot start a broker at {host}:{port}: {error.__cause__ or error}") from None
    try:
        yield Broker(LOOPBACKS.get(host, host), port)
    finally:
        await _everybody_gone(broker)  # it acknowledges a message before it has passed it on
        await broker.shutdown()


async def _everybody_gone(broker: Any) -> None:
    """Devices that have heard that the run is over leave by themselves, the last of many a while later."""
    here, since = _connected(broker), time.monotonic()
    while here and time.monotonic() - since < FAREWELL:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        if _connected(broker) < here:
            here, since = _connected(broker), time.monotonic()


def _connected(broker: Any) -> int:
    return sum(session.transitions.state == "connected" for session, _ in broker._sessions.values())
