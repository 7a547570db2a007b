"""Lines about a broker that cannot be used, or that is lost."""

import asyncio
from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.connecting import rejection, try_connecting
from slotwise.live.transport.mqtt_client import MqttError
from slotwise.live.transport.outages import (
    FIRST,
    LONGEST,
    LONGEST_REFUSED,
    Backoff,
    Outages,
)

BROKER = Broker("host", 1883)
LOST, AGAIN = "connection to the broker lost; reconnecting", "connected again"


@pytest.mark.parametrize(("ca", "trusted"), [(None, "the system"), (Path("a.crt"), "a.crt")])
def test_a_broker_that_is_not_trusted_is_reported_with_the_trusted_certificates(ca, trusted):
    error = MqttError("certificate verify failed")
    text = rejection(error, Broker("host", 8883, tls=True, ca=ca))
    assert text.startswith("certificate of the broker is not trusted")
    assert trusted in text


def test_a_connection_that_only_failed_is_no_rejection():
    assert rejection(ConnectionRefusedError(), BROKER) is None


class Clients:
    """Makes clients whose handshakes are cut; the last one connects."""

    def __init__(self, errors):
        self._errors = list(errors)

    def __call__(self):
        return self

    async def __aenter__(self):
        if self._errors:
            raise self._errors.pop(0)

    async def __aexit__(self, *_):
        pass


CERTIFIED = Broker("host", 8883, tls=True, certificate=Path("device.crt"))
CUT = MqttError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol")
ALERT = MqttError("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca")


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(Backoff, "next", lambda *_: 0.0)


@pytest.mark.usefixtures("no_pauses")
def test_a_handshake_that_was_cut_is_tried_again_with_a_certificate_too():
    noted = []
    asyncio.run(try_connecting(Clients([CUT, CUT]), CERTIFIED, 60.0, noted.append))
    assert len(noted) == 2


@pytest.mark.usefixtures("no_pauses")
def test_a_broker_is_not_waited_for_once_a_stop_is_requested():
    noted = []
    with pytest.raises(UserError, match="cannot reach a broker"):
        asyncio.run(
            try_connecting(
                Clients([MqttError("[Errno 111] Connection refused")] * 9),
                BROKER,
                60.0,
                noted.append,
                lambda: len(noted) == 2,
            )
        )
    assert len(noted) == 2


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(("error", "timeout"), [(ALERT, 60.0), (CUT, 0.0)], ids=["alert", "for too long"])
def test_a_certificate_that_is_rejected_is_reported(error, timeout):
    with pytest.raises(UserError, match="certificate"):
        asyncio.run(try_connecting(Clients([error] * 9), CERTIFIED, timeout, lambda _: None))


def test_clients_that_lose_the_same_broker_report_it_once():
    noted = []
    outages = Outages(noted.append)
    outages.over("one")  # the first connection is not "again"
    for client in ("one", "two", "one"):
        outages.lost(client, None)
    outages.over("one")
    assert noted == [LOST]
    outages.over("two")
    assert noted == [LOST, AGAIN]


def test_over_udp_it_is_the_server_that_is_lost():
    noted = []
    Outages(noted.append, "server").lost("one", None)
    assert noted == ["connection to the server lost; reconnecting"]


def test_why_the_broker_rejects_clients_is_reported_once():
    noted = []
    outages = Outages(noted.append)
    for _ in range(2):
        outages.lost("one", None)
        for _ in range(2):
            outages.lost("one", rejection(MqttError("Not authorized", 135), BROKER))
        outages.over("one")
    assert noted == [LOST, "broker rejected the login: Not authorized; retrying", AGAIN] * 2


CLOSED, REFUSED = OSError("closed"), ConnectionRefusedError(111, "Connection refused")


def waits(errors):
    backoff = Backoff()
    return [backoff.next(error, 0.0) for error in errors]


def test_waits_double_up_to_a_limit_begin_anew_and_are_never_the_same():
    found = waits([CLOSED] * 12)
    for number, wait in enumerate(found):
        longest = min(FIRST * 2**number, LONGEST)
        assert longest / 2 <= wait <= longest
    assert max(waits([REFUSED] * 50)) <= LONGEST_REFUSED
    backoff = Backoff()
    for _ in range(10):
        backoff.next(CLOSED, 0.1)
    assert backoff.next(None, 60.0) <= FIRST
    assert waits([CLOSED] * 12) != waits([CLOSED] * 12)
