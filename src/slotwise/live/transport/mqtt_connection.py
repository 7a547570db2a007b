"""Connections to an MQTT broker: the first one, whose errors are reported, and outages later."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from aiomqtt import Client, MqttCodeError, MqttError

from slotwise.errors import UserError
from slotwise.live.transport.broker import Broker

RETRY_INTERVAL = 0.5  # seconds
_REJECTED = (4, 5, 134, 135)  # wrong user or password, not authorised; in MQTT 3.1.1 and in paho


class MakeClient(Protocol):
    """A function that makes a client of one broker which logs errors to ``logger``."""

    def __call__(self, *, logger: logging.Logger) -> Client:
        """Return a client that is not connected yet."""


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
        """Keep the message; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._keep, record.getMessage())

    def _keep(self, text: str) -> None:
        if not self.text.done():
            self.text.set_result(text)


async def _connect_once(make_client: MakeClient) -> None:
    """Connect and disconnect, or raise an MqttError."""
    first_error, logger = _FirstError(), logging.Logger("slotwise.mqtt")
    logger.addHandler(first_error)
    client = make_client(logger=logger)
    entering = asyncio.ensure_future(client.__aenter__())
    outcomes: set[asyncio.Future[Any]] = {entering, first_error.text}
    await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        raise MqttError(first_error.text.result())
    await entering
    await client.__aexit__(None, None, None)


async def try_connecting(
    make_client: MakeClient, broker: Broker, timeout: float, notice: Callable[[str], None]
) -> None:
    """Connect once and disconnect; a broker that does not answer is retried for ``timeout`` seconds.

    Raises:
        UserError: the broker cannot be reached, or rejects this client.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    while True:
        try:
            await _connect_once(make_client)
        except (MqttError, ssl.SSLError) as error:
            if why := rejection(error, broker):
                raise UserError(f"{broker}: {why}") from None
            if loop.time() >= until:
                raise UserError(f"cannot reach a broker at {broker} ({error})") from None
            notice(f"waiting for the broker at {broker} ({error})")
        else:
            return
        await asyncio.sleep(RETRY_INTERVAL)


def rejection(error: Exception, broker: Broker) -> str | None:
    """Describe why broker or client reject each other; None if the connection only failed."""
    text = str(error)
    if isinstance(error, MqttCodeError) and getattr(error.rc, "value", None) in _REJECTED:
        return f"broker rejected the login: {error.rc}"
    alert_lost = broker.certificate is not None and "EOF occurred" in text
    if "_ALERT_" in text or alert_lost:
        return f"broker rejected this client's certificate, or that it has none ({text})"
    if "certificate" in text.lower():
        trusted = "the system's" if broker.ca is None else f"those in {broker.ca}"
        return f"certificate of the broker is not trusted ({text}); trusted are {trusted}"
    return None


class Outages:
    """Reports once that the broker is lost, why it rejects clients, and that all are connected again.

    All clients of a process share one: they lose the same broker, and it is reported once.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._disconnected: set[str] = set()
        self._rejections: set[str] = set()

    def lost(self, client: str, why: str | None) -> None:
        """Report that a client has no connection, and why the broker rejects it if it does."""
        if not self._disconnected:
            self._notice("connection to the broker lost; reconnecting")
        self._disconnected.add(client)
        if why is not None and why not in self._rejections:
            self._rejections.add(why)
            self._notice(f"{why}; retrying")

    def over(self, client: str) -> None:
        """Report that a client is connected, for the first time or again."""
        if client not in self._disconnected:
            return
        self._disconnected.remove(client)
        if not self._disconnected:
            self._rejections.clear()
            self._notice("connected again")
