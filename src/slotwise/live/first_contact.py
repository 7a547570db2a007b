"""The first connection to a broker: mistakes are told apart from a connection that is lost later."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from aiomqtt import Client, MqttCodeError, MqttError

from slotwise.errors import UserError

if TYPE_CHECKING:
    from slotwise.live.mqtt import Broker

SECONDS_BETWEEN_TRIES = 0.5
_REFUSED = (4, 5, 134, 135)  # wrong user or password, not authorised; in MQTT 3.1.1 and as paho says it


class MakeClient(Protocol):
    """Makes a client of one broker that complains to ``logger``."""

    def __call__(self, *, logger: logging.Logger) -> Client:
        """Not connected yet."""


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


async def _connect_once(make_client: MakeClient) -> None:
    """Connect and disconnect.

    Raises:
        MqttError: why that did not work.
    """
    complaint, logger = _Complaint(), logging.Logger("slotwise.mqtt")
    logger.addHandler(complaint)
    client = make_client(logger=logger)
    entering = asyncio.ensure_future(client.__aenter__())
    outcomes: set[asyncio.Future[Any]] = {entering, complaint.text}
    await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        raise MqttError(complaint.text.result())
    await entering
    await client.__aexit__(None, None, None)


async def try_out(
    make_client: MakeClient,
    broker: Broker,
    patience: float,
    waiting: Callable[[str], None] | None,
) -> None:
    """Connect once and disconnect.

    Args:
        make_client: of the broker.
        broker: where it is.
        patience: seconds for which a broker that does not answer is tried again.
        waiting: is told why it takes so long.

    Raises:
        UserError: it cannot be reached, or lets nobody in who comes like this.
    """
    until = asyncio.get_running_loop().time() + patience
    while True:
        try:
            await _connect_once(make_client)
        except (MqttError, ssl.SSLError) as error:
            if why := refusal(error, broker):
                raise UserError(f"{broker}{why}") from None
            if asyncio.get_running_loop().time() >= until:
                raise UserError(f"cannot reach a broker at {broker} ({error})") from None
            if waiting is not None:
                waiting(str(error))
        else:
            return
        await asyncio.sleep(SECONDS_BETWEEN_TRIES)


def refusal(error: Exception, broker: Broker) -> str | None:
    """What the broker has against this client, or this client against the broker; None if it only failed."""
    text = str(error)
    if isinstance(error, MqttCodeError) and getattr(error.rc, "value", None) in _REFUSED:
        return f" lets nobody in like this: {error.rc}"
    cut_off = broker.certificate is not None and "EOF occurred" in text  # an alert that got lost
    if "_ALERT_" in text or cut_off:
        return f" refuses this client's certificate, or that it has none ({text})"
    if "certificate" in text.lower():
        trusted = "the system's" if broker.ca is None else f"those in {broker.ca}"
        return f": its certificate is not trusted ({text}); trusted are {trusted}"
    return None
