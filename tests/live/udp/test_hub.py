"""The server's end and devices: sessions, strangers, replays, lost devices."""

import asyncio
import os

import pytest
from udp_pair import SECRETS, TOPICS, Air, unread, will_of

from slotwise.live.transport import Connected, Message
from slotwise.live.udp.datagrams import SEALED, header, hello_said
from slotwise.live.udp.hub import OPENING
from slotwise.live.udp.sealing import hello_key, proof


@pytest.fixture
def air():
    return Air()


def joined(air, *numbers, **options):
    for number in numbers:
        air.device(number, **options)
    air.run(60, lambda: all(air.hub._clients[n].will for n in numbers))
    return [air.channels[number] for number in numbers]


def publish(air, channel, topic, payload, **how):
    """Publish to the end, while time passes."""

    async def publishing():
        task = asyncio.ensure_future(channel.publish(topic, payload, **how))
        while not task.done():
            await asyncio.sleep(0)
            air.run(0.05)
        await task

    asyncio.run(publishing())


def messages(channel):
    return [one._replace(begun=0.0) for one in unread(channel) if isinstance(one, Message)]


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_messages_reach_those_they_are_for_and_nobody_else(loss):
    air = Air(seed=3, loss=loss, double=loss)
    one, two, three = joined(air, 1, 2, 3)
    (model,) = TOPICS.to_receivers([1, 3])
    publish(air, air.hub, model, b"w")
    publish(air, air.hub, TOPICS.to_device(2, "grant"), b"g")
    publish(air, one, TOPICS.from_device(1, "update"), b"u" * 5000)
    air.run(60, lambda: not air.hub.is_busy)
    assert messages(one) == messages(three) == [Message(model, b"w")]
    assert messages(two) == [Message(TOPICS.to_device(2, "grant"), b"g")]
    assert messages(air.hub) == [Message(TOPICS.from_device(1, "update"), b"u" * 5000)]


def test_a_device_that_comes_later_gets_what_is_retained(air):
    publish(air, air.hub, TOPICS.to_all("call"), b"old", retain=True)
    publish(air, air.hub, TOPICS.to_all("call"), b"run", retain=True)
    publish(air, air.hub, TOPICS.to_all("end"), b"over", retain=True)
    publish(air, air.hub, TOPICS.to_all("end"), b"", retain=True)
    (one,) = joined(air, 1)
    air.run(5, lambda: not air.hub.is_busy)
    assert unread(one) == [Connected(1), Message(TOPICS.to_all("call"), b"run", retained=True)]


def test_a_device_may_not_speak_for_another_or_for_the_server(air):
    (one,) = joined(air, 1)
    for topic in (TOPICS.from_device(2, "update"), TOPICS.to_all("end"), TOPICS.from_device(1, "grant"), "x"):
        publish(air, one, topic, b"x")
    assert messages(air.hub) == []
    assert air.hub.refused["not allowed"] == 4


def test_garbage_takes_no_memory_and_changes_no_session(air):
    (one,) = joined(air, 1)
    before = {number: (c.session, len(c.opening)) for number, c in air.hub._clients.items()}
    for number in range(3000):
        kind = (0x51, 0x52, SEALED, 0x54)[number % 4]
        air.hub.receive(header(kind, number % 7) + os.urandom(number % 300), ("stranger", number))
        air.hub.receive(os.urandom(number % 40), ("stranger", number))
        one.receive(header(kind, 1) + os.urandom(number % 300))
    assert {number: (c.session, len(c.opening)) for number, c in air.hub._clients.items()} == before
    assert not messages(air.hub)
    assert sum(air.hub.refused.values()) == 6000
    assert set(air.hub.refused) == {"no datagram", "unknown device", "wrong tag"}
    publish(air, one, TOPICS.from_device(1, "ready"), b"still here")
    assert messages(air.hub) == [Message(TOPICS.from_device(1, "ready"), b"still here")]


def test_an_enrolled_device_cannot_open_more_than_a_few_sessions(air):
    for number in range(1000):
        some = number.to_bytes(16, "little")
        said = hello_said(1, some)
        air.hub.receive(said + proof(hello_key(SECRETS[1]), some[:12], said), ("stranger", 1))
    assert len(air.hub._clients[1].opening) == OPENING


def test_replayed_datagrams_of_a_whole_session_change_nothing(air):
    (one,) = joined(air, 1)
    publish(air, one, TOPICS.from_device(1, "ready"), b"once")
    session, recorded = air.hub._clients[1].session, [d for d in air.carried if d[0] in (0x51, SEALED)]
    for datagram in recorded:
        air.hub.receive(datagram, ("stranger", 9))
    assert air.hub._clients[1].session is session
    assert air.hub._clients[1].address == ("device", 1)
    assert messages(air.hub) == [Message(TOPICS.from_device(1, "ready"), b"once")]
    assert air.hub.refused["replayed"] > 0


def test_a_wrong_key_opens_no_session(air):
    stranger = air.device(1, secret=b"x" * 32)
    air.run(10)
    assert not stranger.connected
    assert air.hub.refused["wrong tag"] > 3


def test_the_will_of_a_device_that_falls_silent_is_heard_once(air):
    joined(air, 1, keepalive=4)
    del air.channels[1]
    air.run(5)
    assert not messages(air.hub)
    air.run(5)
    assert messages(air.hub) == [will_of(1)]


def test_the_will_of_a_device_that_leaves_is_not_heard(air):
    (one,) = joined(air, 1, keepalive=4)
    one.close()
    del air.channels[1]
    air.run(30)
    assert not messages(air.hub)


def test_idle_sessions_last(air):
    (one,) = joined(air, 1, keepalive=4)
    air.run(300)
    assert one.connections == 1
    assert air.hub._clients[1].session is not None


def test_devices_return_to_a_server_that_was_restarted_and_repeat_what_was_not_acknowledged(air):
    (one,) = joined(air, 1)
    air.run(5)
    air.new_hub()
    publish(air, one, TOPICS.from_device(1, "here"), b"again")
    assert one.connections == 2
    assert Message(TOPICS.from_device(1, "here"), b"again") in messages(air.hub)


def test_a_false_hint_that_the_server_forgot_the_session_is_not_believed(air):
    (one,) = joined(air, 1)
    publish(air, one, TOPICS.from_device(1, "here"), b"x")
    one.receive(header(0x54, 1))
    assert one.connected


def test_what_waits_for_a_device_that_takes_nothing_is_bounded(air, monkeypatch):
    monkeypatch.setattr("slotwise.live.udp.hub.MOST_QUEUED", 100_000)
    joined(air, 1)
    air.loss = 1.0
    for _ in range(50):
        publish(air, air.hub, TOPICS.to_device(1, "work"), bytes(10_000))
    assert air.hub._clients[1].session is None
    assert will_of(1) in messages(air.hub)
