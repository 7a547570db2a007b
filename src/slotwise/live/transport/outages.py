"""Brokers that are lost or refuse a client: first connection, pauses between attempts, what is reported."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import ssl
import time
from collections.abc import Callable
from typing import Any

from aiomqtt import Client, MqttCodeError, MqttError

from slotwise.base.errors import UserError
from slotwise.live.transport.broker import Broker

FIRST = 0.5  # seconds before the first retry, at most
LONGEST = 30.0
# A broker that is not there refuses connections, which costs nobody anything; when it is back, devices must
# return within seconds to keep their work. One that accepts and closes them, or its proxy, needs a rest.
LONGEST_REFUSED = 2.0
STEADY = 5.0  # seconds; after a connection that has lasted as long, waiting begins anew
_RANDOM_STEPS = 1 << 20
REJECTED = (4, 5, 134, 135)  # wrong user or password, not authorised; in MQTT 3.1.1 and in paho


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


class Backoff:
    """Waiting times that double from one failure to the next, each shortened at random by up to a half.

    The randomness keeps the devices of a fleet from coming back all at once.
    """

    def __init__(self) -> None:
        self._failures = 0

    def next(self, error: Exception | None, lasted: float) -> float:
        """Return the seconds to wait after a connection that lasted so long and ended with ``error``."""
        if lasted >= STEADY:
            self._failures = 0
        refused = os.strerror(errno.ECONNREFUSED) in str(error)
        longest = min(FIRST * 2.0 ** min(self._failures, 30), LONGEST_REFUSED if refused else LONGEST)
        self._failures += 1
        return longest * (1 - secrets.randbelow(_RANDOM_STEPS) / (2 * _RANDOM_STEPS))


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


async def try_connecting(
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
            why, late = rejection(error, broker), time.monotonic() >= until
            # A connection that ends in the handshake may have been cut: only an alert is surely a rejection.
            if why is not None and (late or not _may_be_cut(error)):
                raise UserError(f"{broker}: {why}") from None
            if late:
                raise UserError(f"cannot reach a broker at {broker} ({error})") from None
            notice(f"waiting for the broker at {broker} ({error})")
            pause = min(backoff.next(error, 0.0), max(0.0, until - time.monotonic()))
        else:
            return
        await asyncio.sleep(pause)


def _may_be_cut(error: Exception) -> bool:
    """Return whether the connection has ended without a word in the middle of a handshake."""
    return "EOF occurred" in str(error)


def rejection(error: Exception, broker: Broker) -> str | None:
    """Describe why broker or client reject each other; None if the connection only failed."""
    text = str(error)
    if isinstance(error, MqttCodeError) and getattr(error.rc, "value", None) in REJECTED:
        return f"broker rejected the login: {error.rc}"
    # With TLS 1.3 a client is connected before the broker has checked its certificate. The refusal comes
    # afterwards, as an alert or only as the end of the connection.
    alert_lost = broker.certificate is not None and _may_be_cut(error)
    if "_ALERT_" in text or alert_lost:
        return f"broker rejected this client's certificate, or that it has none ({text})"
    if "certificate" in text.lower():
        trusted = "the system's" if broker.ca is None else f"those in {broker.ca}"
        return f"certificate of the broker is not trusted ({text}); trusted are {trusted}"
    return None
