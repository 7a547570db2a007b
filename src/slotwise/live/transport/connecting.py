"""The first connection with a broker, and why broker and client reject each other."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

from slotwise.base.errors import UserError
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.mqtt_client import MqttClient, MqttError
from slotwise.live.transport.outages import Backoff

REJECTED = (134, 135)  # wrong user or password, not authorised


async def try_connecting(
    make_client: Callable[[], MqttClient],
    broker: Broker,
    timeout: float,
    notice: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Connect once and disconnect; a broker that does not answer is retried for ``timeout`` seconds.

    It is not retried if ``stopped()``.
    """
    until, backoff = time.monotonic() + timeout, Backoff()
    while True:
        try:
            async with make_client():
                return
        except (MqttError, ssl.SSLError) as error:
            why, late = rejection(error, broker), stopped() or time.monotonic() >= until
            # A connection that ends in the handshake may have been cut: only an alert is surely a rejection.
            if why is not None and (late or not _may_be_cut(error)):
                raise UserError(f"{broker}: {why}") from None
            if late:
                raise UserError(f"cannot reach a broker at {broker} ({error})") from None
            notice(f"waiting for the broker at {broker} ({error})")
            pause = min(backoff.next(error, 0.0), max(0.0, until - time.monotonic()))
        await asyncio.sleep(pause)


def _may_be_cut(error: Exception) -> bool:
    """Return whether the connection has ended without a word in the middle of a handshake."""
    return "EOF occurred" in str(error)


def rejection(error: Exception, broker: Broker) -> str | None:
    """Describe why broker or client reject each other; None if the connection only failed."""
    text = str(error)
    if isinstance(error, MqttError) and error.code in REJECTED:
        return f"broker rejected the login: {error}"
    # With TLS 1.3 a client is connected before the broker has checked its certificate. The refusal comes
    # afterwards, as an alert or only as the end of the connection.
    alert_lost = broker.certificate is not None and _may_be_cut(error)
    if "_ALERT_" in text or alert_lost:
        return f"broker rejected this client's certificate, or that it has none ({text})"
    if "certificate" in text.lower():
        trusted = "the system's" if broker.ca is None else f"those in {broker.ca}"
        return f"certificate of the broker is not trusted ({text}); trusted are {trusted}"
    return None
