"""Announcement: which of two servers on a channel is the newer one, without asking a clock."""

import pytest
from virtual_time import run_virtual

from live import TOPICS
from slotwise.live.protocol import Label, decode, encode
from slotwise.live.server.outbox import Announcement, Superseded, publish_end_again
from slotwise.live.transport import MemoryBroker, Message

TOPIC = TOPICS.to_all("call")
LONG = 10.0  # virtual seconds, longer than the wait for retained messages


class Recording:
    """A channel that keeps what is published."""

    connected = True

    def __init__(self):
        self.published, self.connections = [], 1

    async def publish(self, topic, payload, *, retain=False, acknowledged=True):
        self.published.append((topic.rpartition("/")[2], payload))

    @property
    def calls(self):
        return [payload for kind, payload in self.published if kind == "call"]


def retained(payload):
    return Message(TOPIC, payload, retained=True)


def live(payload):
    return Message(TOPIC, payload)


FOREIGN = encode(Label("another"), boot="another")
SAME_RUN = encode(Label("run"), boot="another")


def calls_after(scenario):
    """Return the announcements after ``scenario(announcement, channel, clock)``."""

    async def run(clock):
        channel = Recording()
        await scenario(Announcement("run", {}, channel, TOPICS, clock), channel, clock)
        return channel.calls

    return run_virtual(run)


@pytest.mark.parametrize("foreign", [FOREIGN, SAME_RUN], ids=["another run", "same run"])
def test_an_announcement_that_was_retained_before_this_server_came_is_older(foreign):
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(retained(foreign), 0)

    assert len(calls_after(scenario)) == 1


@pytest.mark.parametrize("foreign", [FOREIGN, SAME_RUN], ids=["another run", "same run"])
def test_an_announcement_while_this_server_is_connected_is_newer(foreign):
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(live(channel.calls[0]), 0)
        with pytest.raises(Superseded):
            await own.receive(live(foreign), 0)

    calls_after(scenario)


def test_an_announcement_before_this_server_has_made_its_own_is_older():
    async def scenario(own, channel, clock):
        await own.receive(live(FOREIGN), 0)
        await own.connected(1, 0)

    assert len(calls_after(scenario)) == 1


def test_an_announcement_that_the_broker_delivers_before_this_servers_own_is_older():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(live(FOREIGN), 0)
        await own.receive(live(channel.calls[0]), 0)
        with pytest.raises(Superseded):
            await own.receive(live(FOREIGN), 0)

    assert len(calls_after(scenario)) == 1


def test_of_two_announcements_repeated_at_the_same_moment_the_later_stays():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(live(channel.calls[0]), 0)
        channel.connections = 2
        await own.connected(2, 3)
        await clock.sleep(LONG)
        await own.receive(live(FOREIGN), 3)  # before its own repetition is delivered
        await own.receive(live(channel.calls[1]), 3)

    assert len(calls_after(scenario)) == 2


def test_an_announcement_is_newer_too_if_the_connection_was_lost_before_this_servers_own_came_back():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        channel.connections = 2
        await own.connected(2, 3)
        with pytest.raises(Superseded):
            await own.receive(live(FOREIGN), 3)

    assert len(calls_after(scenario)) == 1


def test_an_announcement_made_while_this_server_was_away_is_newer_and_is_not_answered():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        channel.connections = 2
        await own.connected(2, 3)
        with pytest.raises(Superseded):
            await own.receive(retained(FOREIGN), 3)
        await clock.sleep(LONG)

    assert len(calls_after(scenario)) == 1


def test_an_announcement_that_was_retained_when_this_servers_own_got_through_is_older():
    async def scenario(own, channel, clock):
        channel.connections = 2  # the first connection was lost before the announcement was sent
        await own.connected(1, 0)
        await own.connected(2, 0)
        await own.receive(retained(FOREIGN), 0)
        await clock.sleep(LONG)

    assert len(calls_after(scenario)) == 1


def test_a_server_ignores_its_own_announcement():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(live(channel.calls[0]), 0)

    assert len(calls_after(scenario)) == 1


@pytest.mark.parametrize("lost", [True, False])
def test_a_server_that_was_away_announces_again_whether_or_not_the_broker_has_retained_it(lost):
    """What the devices said meanwhile is lost either way."""

    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        channel.connections = 2
        await own.connected(2, 3)
        if not lost:
            await own.receive(retained(channel.calls[0]), 3)
        await clock.sleep(LONG)

    assert [decode(payload).label.round for payload in calls_after(scenario)] == [0, 3]


def test_an_announcement_that_another_server_removes_is_repeated():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(live(b""), 2)

    assert [decode(payload).label.round for payload in calls_after(scenario)] == [0, 2]


def test_garbage_is_not_an_announcement():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        await own.receive(live(b"garbage"), 0)

    assert len(calls_after(scenario)) == 1


def test_nothing_is_announced_after_the_end():
    async def scenario(own, channel, clock):
        await own.connected(1, 0)
        channel.connections = 2
        await own.connected(2, 1)
        await own.end()
        await clock.sleep(LONG)

    assert calls_after(scenario)[-1] == b""


@pytest.mark.parametrize(
    ("announced", "told"),
    [(encode(Label("run")), True), (b"", True), (FOREIGN, False), (b"garbage", True)],
    ids=["this run", "none", "another run", "garbage"],
)
def test_an_end_that_devices_may_have_missed_is_repeated_unless_another_run_is_announced(announced, told):
    async def left_behind(clock):
        broker = MemoryBroker()
        broker.retained |= {TOPIC: announced} if announced else {}
        async with broker.connect() as channel:
            await publish_end_again("run", channel, TOPICS, clock)
        return broker.retained

    kept = run_virtual(left_behind)
    assert (TOPICS.to_all("end") in kept) == told
    assert (TOPIC in kept) != told
