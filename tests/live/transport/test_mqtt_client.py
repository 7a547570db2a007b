"""One connection with a broker, when the broker does not do what it should."""

import asyncio
import socket

import pytest
from scripted_broker import ACCEPTED, PUBLISH, ScriptedBroker

from slotwise.live.transport import mqtt_client
from slotwise.live.transport.broker import Broker
from slotwise.live.transport.mqtt_client import MqttClient, MqttError

V311 = 4


def play(broker, scenario):
    """Run ``scenario(address of the broker)``."""

    async def run():
        async with broker.listening() as address, asyncio.timeout(60):
            return await scenario(address)

    return asyncio.run(run())


def acknowledgement(body):
    """The answer to a message on a topic of one letter."""
    return b"\x40\x02" + body[3:5]


async def enter(address):
    async with MqttClient(address, "client"):
        pass


def test_a_broker_that_accepts_connections_and_does_not_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(mqtt_client, "ANSWER_TIMEOUT", 0.1)
    with pytest.raises(MqttError, match="does not answer"):
        play(ScriptedBroker({V311: b""}), enter)


def test_a_broker_that_closes_the_connection_at_once_is_an_error():
    with pytest.raises(MqttError, match="connection lost"):
        play(ScriptedBroker({}), enter)


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [(4, 134, "Bad user name or password"), (5, 135, "Not authorized"), (3, 136, "Server unavailable")],
)
def test_a_refused_connection_has_the_reason_of_the_broker(answer, code, text):
    with pytest.raises(MqttError, match=text) as error:
        play(ScriptedBroker({V311: bytes([0x20, 2, 0, answer])}), enter)
    assert error.value.code == code


def test_an_answer_that_is_no_mqtt_is_an_error():
    with pytest.raises(MqttError):
        play(ScriptedBroker({V311: b"HTTP/1.1 400 Bad Request\r\n" * 9}), enter)


def test_no_more_messages_are_under_way_than_the_limit(monkeypatch):
    monkeypatch.setattr(mqtt_client, "MOST_IN_FLIGHT", 3)
    broker = ScriptedBroker({V311: ACCEPTED})

    async def scenario(address):
        async with MqttClient(address, "client") as client:
            sending = [asyncio.create_task(client.publish("x", bytes([n]))) for n in range(5)]
            for number in range(5):
                kind, body = await broker.packets.get()
                assert (kind, body[5:]) == (PUBLISH, bytes([number]))
                if number >= 2:
                    await client.publish("x", b"end", qos=0)
                    assert (await broker.packets.get())[1][3:] == b"end"  # and nothing before it
                    broker.send(acknowledgement(body))
            for task in sending[2:]:
                await task
            assert not any(task.done() for task in sending[:2])
            for task in sending[:2]:
                task.cancel()

    play(broker, scenario)


def test_who_waits_for_an_acknowledgement_learns_that_the_connection_is_lost():
    broker = ScriptedBroker({V311: ACCEPTED})

    async def scenario(address):
        async with MqttClient(address, "client") as client:
            sending = asyncio.create_task(client.publish("x", b"1"))
            subscribing = asyncio.create_task(client.subscribe(["y"]))
            await broker.packets.get()
            await broker.packets.get()
            client.socket.shutdown(socket.SHUT_RDWR)
            for waiting in (sending, subscribing, client.ended(), client.publish("x", b"2", qos=0)):
                with pytest.raises(MqttError):
                    await waiting

    play(broker, scenario)


def test_a_client_that_is_not_wanted_any_more_while_it_connects_leaves_nothing_open():
    broker = ScriptedBroker({V311: ACCEPTED})

    async def scenario(address):
        client = MqttClient(address, "client")
        entering = asyncio.create_task(client.__aenter__())
        await asyncio.sleep(0)  # the thread has begun
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        while client.socket is None or client.socket.fileno() >= 0:
            await asyncio.sleep(0.001)

    play(broker, scenario)
    assert not broker.versions


def test_a_host_without_a_broker_is_an_error():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # nothing listens
        with pytest.raises(MqttError, match="refused"):
            asyncio.run(enter(Broker("127.0.0.1", probe.getsockname()[1])))
