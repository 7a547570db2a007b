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


FOREIGN = encode(Label("another"), boot="another")
SAME_RUN = encode(Label("run"), boot="another")


class Story:
    """A server's announcement, and what the broker delivers to it step by step."""

    def __init__(self, clock, foreign=FOREIGN):
        self.channel, self._clock, self._foreign = Recording(), clock, foreign
        self.own = Announcement("run", {}, self.channel, TOPICS, clock)
        self.superseded, self._round = False, 0

    async def step(self, name):
        match name:
            case "connected":
                await self.own.connected(1, 0)
            case "connection lost":
                self.channel.connections = 2
            case "reconnected":
                self._round, self.channel.connections = 3, 2
                await self.own.connected(2, 3)
            case "wait":
                await self._clock.sleep(LONG)
            case _:
                words = name.split()
                payload = {"foreign": self._foreign, "garbage": b"garbage", "removed": b""}.get(words[-1])
                payload = self.channel.calls[-1] if payload is None else payload
                try:
                    await self.own.receive(Message(TOPIC, payload, retained="retained" in words), self._round)
                except Superseded:
                    self.superseded = True


@pytest.mark.parametrize("foreign", [FOREIGN, SAME_RUN], ids=["another run", "same run"])
@pytest.mark.parametrize(
    ("steps", "announced", "superseded"),
    [
        # An announcement that was retained before this server came is older.
        (["connected", "retained foreign"], [0], False),
        # While this server is connected, it is newer.
        (["connected", "own", "foreign"], [0], True),
        # Before this server has made its own, and before the broker has delivered it, it is older.
        (["foreign", "connected"], [0], False),
        (["connected", "foreign", "own"], [0], False),
        (["connected", "foreign", "own", "foreign"], [0], True),
        # Of two that are repeated at the same moment the later stays.
        (["connected", "own", "reconnected", "wait", "foreign", "own"], [0, 3], False),
        # The connection was lost before this server's own came back: it is newer.
        (["connected", "reconnected", "foreign"], [0], True),
        # Made while this server was away it is newer, and is not answered.
        (["connected", "reconnected", "retained foreign", "wait"], [0], True),
        # Retained when this server's own got through, which took a second connection, it is older.
        (["connection lost", "connected", "reconnected", "retained foreign", "wait"], [0], False),
        # A server that was away announces again, whether the broker has retained it or not.
        (["connected", "reconnected", "wait"], [0, 3], False),
        (["connected", "reconnected", "retained own", "wait"], [0, 3], False),
        # One that another server removes is repeated; this server's own and garbage are not answered.
        (["connected", "removed"], [0, 0], False),
        (["connected", "own"], [0], False),
        (["connected", "garbage"], [0], False),
    ],
    ids=lambda steps: ", ".join(map(str, steps)) if isinstance(steps, list) else str(steps),
)
def test_the_newer_of_two_servers_stays(steps, announced, superseded, foreign):
    async def run(clock):
        story = Story(clock, foreign)
        for step in steps:
            await story.step(step)
        return [decode(payload).label.round for payload in story.channel.calls], story.superseded

    assert run_virtual(run) == (announced, superseded)


def test_nothing_is_announced_after_the_end():
    async def run(clock):
        story = Story(clock)
        await story.step("connected")
        await story.step("reconnected")
        await story.own.end()
        await story.step("wait")
        return story.channel.calls

    assert run_virtual(run)[-1] == b""


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
