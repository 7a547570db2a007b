"""DeviceMonitor: answers to devices that ask more often than they may."""

import asyncio
from collections import Counter

from virtual_time import run_virtual

from live import TOPICS, prepare
from slotwise import Scenario
from slotwise.live.protocol import Label, encode
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.inbox import Inbox, UpdateCheck
from slotwise.live.server.monitor import ANSWER_BURST, DeviceMonitor
from slotwise.live.transport import Message


class SlowChannel:
    """A channel on which messages to device 1 take ten seconds, once ``slow`` is set."""

    connected, connections = True, 1

    def __init__(self, clock):
        self._clock, self._inbox, self.slow, self.sent = clock, asyncio.Queue(), False, Counter()

    def say_here(self, device):
        topic = TOPICS.from_device(device, "here")
        self._inbox.put_nowait(Message(topic, encode(Label("run", device), boot=f"boot{device}")))

    async def arrivals(self):
        while True:
            yield await self._inbox.get()

    async def publish(self, topic, payload, *, retain=False, acknowledged=True):
        if self.slow and topic == TOPICS.to_device(1, "rest"):
            await self._clock.sleep(10.0)
        self.sent[topic] += 1


def test_an_answer_that_takes_long_does_not_collide_with_others():
    live = prepare(Scenario(devices=3, group_size=1, compute_slots=4), "async")

    async def scenario(clock):
        channel = SlowChannel(clock)
        inbox = Inbox(TOPICS, "run", 3, live.state, UpdateCheck(8), clock, live.rejections.append)
        monitor = DeviceMonitor(live.spec, channel, inbox, LiveObserver())
        listening = asyncio.create_task(monitor.listen())
        for _ in range(ANSWER_BURST + 1):
            channel.say_here(1)
            channel.say_here(2)
        await clock.sleep(1.0)
        channel.slow = True
        await clock.sleep(5.0)  # the answer to device 1 is under way, and that to device 2 waits
        channel.say_here(3)
        await clock.sleep(20.0)
        channel.say_here(3)
        await clock.sleep(1.0)
        assert not listening.done()
        listening.cancel()
        return [channel.sent[TOPICS.to_device(device, "rest")] for device in (1, 2, 3)]

    assert run_virtual(scenario) == [ANSWER_BURST + 1, ANSWER_BURST + 1, 2]
