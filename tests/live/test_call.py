"""The call: who of two servers on a channel is the newer one, without asking a clock."""

import asyncio

import pytest

from live import TOPICS
from slotwise.aggregation import mean
from slotwise.fleet import Fleet
from slotwise.live import call as module
from slotwise.live.call import Call, Superseded, say_end_again
from slotwise.live.channel import Message
from slotwise.live.memory import MemoryBroker
from slotwise.live.terms import Terms
from slotwise.live.wire import Label, decode, encode
from slotwise.scenario import Scenario

TOPIC = TOPICS.to_all("call")
TERMS = Terms("run", 1, Fleet.equal(Scenario(devices=2, group_size=1, compute_slots=1)), 1, mean)


class Recording:
    """A channel that keeps what is published."""

    connected = True

    def __init__(self):
        self.said, self.connections = [], 1

    async def publish(self, topic, payload, *, retain=False, acknowledged=True):
        self.said.append((topic.rpartition("/")[2], payload))

    @property
    def calls(self):
        return [payload for kind, payload in self.said if kind == "call"]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_FOR_WHAT_WAS_KEPT", 0.01)


def kept(payload):
    return Message(TOPIC, payload, retained=True)


def live(payload):
    return Message(TOPIC, payload)


FOREIGN = encode(Label("another"), boot="another")
SAME_RUN = encode(Label("run"), boot="another")


def play(scenario):
    """Calls after ``scenario(call, channel)``."""

    async def run():
        channel = Recording()
        await scenario(Call(TERMS, channel, TOPICS), channel)
        return channel.calls

    return asyncio.run(run())


@pytest.mark.parametrize("foreign", [FOREIGN, SAME_RUN])
def test_a_call_that_was_kept_before_this_server_came_is_older(foreign):
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(kept(foreign), 0)

    assert len(play(scenario)) == 1


@pytest.mark.parametrize("foreign", [FOREIGN, SAME_RUN])
def test_a_call_that_is_made_while_this_server_is_there_is_newer(foreign):
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(live(channel.calls[0]), 0)
        with pytest.raises(Superseded):
            await call.hear(live(foreign), 0)

    play(scenario)


def test_a_call_that_is_made_before_this_server_has_made_its_own_is_older():
    async def scenario(call, channel):
        await call.hear(live(FOREIGN), 0)
        await call.connected(1, 0)

    assert len(play(scenario)) == 1


def test_a_call_that_the_broker_passes_on_before_this_servers_own_is_older():
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(live(FOREIGN), 0)
        await call.hear(live(channel.calls[0]), 0)
        with pytest.raises(Superseded):
            await call.hear(live(FOREIGN), 0)

    assert len(play(scenario)) == 1


def test_of_two_calls_made_again_in_the_same_moment_the_later_stays():
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(live(channel.calls[0]), 0)
        channel.connections = 2
        await call.connected(2, 3)
        await asyncio.sleep(0.05)
        await call.hear(live(FOREIGN), 3)  # before its own, made again, is passed on
        await call.hear(live(channel.calls[1]), 3)

    assert len(play(scenario)) == 2


def test_a_call_is_newer_too_if_the_connection_was_lost_before_this_servers_own_came_back():
    async def scenario(call, channel):
        await call.connected(1, 0)
        channel.connections = 2
        await call.connected(2, 3)
        with pytest.raises(Superseded):
            await call.hear(live(FOREIGN), 3)

    assert len(play(scenario)) == 1


def test_a_call_that_was_made_while_this_server_was_away_is_newer_and_is_not_answered():
    async def scenario(call, channel):
        await call.connected(1, 0)
        channel.connections = 2
        await call.connected(2, 3)
        with pytest.raises(Superseded):
            await call.hear(kept(FOREIGN), 3)
        await asyncio.sleep(0.05)

    assert len(play(scenario)) == 1


def test_a_call_that_was_kept_when_this_servers_own_got_through_is_older():
    async def scenario(call, channel):
        channel.connections = 2  # the first connection was lost before the call was out
        await call.connected(1, 0)
        await call.connected(2, 0)
        await call.hear(kept(FOREIGN), 0)
        await asyncio.sleep(0.05)

    assert len(play(scenario)) == 1


def test_its_own_call_is_no_news():
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(live(channel.calls[0]), 0)

    assert len(play(scenario)) == 1


def test_a_server_that_was_away_calls_again_whether_or_not_the_broker_has_kept_its_call():
    """What the devices said meanwhile is lost either way."""

    async def lost(call, channel):
        await call.connected(1, 0)
        channel.connections = 2
        await call.connected(2, 3)
        await asyncio.sleep(0.05)

    async def not_lost(call, channel):
        await call.connected(1, 0)
        channel.connections = 2
        await call.connected(2, 3)
        await call.hear(kept(channel.calls[0]), 3)
        await asyncio.sleep(0.05)

    for away in (lost, not_lost):
        assert [decode(payload).label.round for payload in play(away)] == [0, 3]


def test_a_call_that_another_server_takes_back_is_made_again():
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(live(b""), 2)

    assert [decode(payload).label.round for payload in play(scenario)] == [0, 2]


def test_garbage_is_no_call():
    async def scenario(call, channel):
        await call.connected(1, 0)
        await call.hear(live(b"garbage"), 0)

    assert len(play(scenario)) == 1


def test_nobody_is_called_after_the_end():
    async def scenario(call, channel):
        await call.connected(1, 0)
        channel.connections = 2
        await call.connected(2, 1)
        await call.end()
        await asyncio.sleep(0.05)

    assert play(scenario)[-1] == b""


@pytest.mark.parametrize(
    ("call", "told"), [(encode(Label("run")), True), (b"", True), (FOREIGN, False), (b"garbage", True)]
)
def test_an_end_that_nobody_may_have_heard_is_said_again_unless_another_run_is_on(call, told):
    async def left_behind():
        broker = MemoryBroker()
        broker.retained |= {TOPIC: call} if call else {}
        async with broker.connect() as channel:
            await say_end_again("run", channel, TOPICS)
        return broker.retained

    retained = asyncio.run(left_behind())
    assert (TOPICS.to_all("end") in retained) == told
    assert (TOPIC in retained) != told
