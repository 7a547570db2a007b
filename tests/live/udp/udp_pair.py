"""A server and devices on UDP without sockets; datagrams are lost, doubled and reordered."""

import random
from heapq import heappop, heappush
from itertools import count

from slotwise.live.protocol import Label, Topics, encode
from slotwise.live.transport import Message
from slotwise.live.transport.udp_login import parse_group
from slotwise.live.udp.group import GroupSender
from slotwise.live.udp.hub import UdpHub
from slotwise.live.udp.udp_channel import UdpChannel

TOPICS = Topics("test")
GROUP = parse_group("239.255.0.1")
SECRETS = {number: bytes([number]) * 32 for number in range(1, 6)}


def will_of(number):
    return Message(TOPICS.from_device(number, "gone"), encode(Label("", number)))


class Air:
    """Carries datagrams between a hub and channels, with a delay that is drawn for each.

    With a ``group`` the hub has one, which all devices hear that are not in ``deaf``.
    """

    def __init__(self, seed=0, loss=0.0, double=0.0, frame_bytes=220, group=False, deaf=()):
        self.now, self.loss, self.double = 0.0, loss, double
        self._random, self._numbers, self._heap = random.Random(seed), count(), []
        self.carried = []
        self.frame_bytes = frame_bytes
        self.channels, self._group, self.deaf = {}, group, set(deaf)
        self.joined = {}  # groups by device
        self.hub = self.new_hub()

    def new_hub(self):
        sender = GroupSender(GROUP, self.frame_bytes, self._to_group) if self._group else None
        self.hub = UdpHub(SECRETS, TOPICS, self.frame_bytes, self._to_device, lambda: self.now, sender)
        return self.hub

    def device(self, number, keepalive=10, secret=None):
        address = ("device", number)
        self.channels[number] = UdpChannel(
            number,
            SECRETS[number] if secret is None else secret,
            will_of(number),
            keepalive,
            lambda datagram: self._carry(datagram, lambda: self.hub.receive(datagram, address)),
            lambda: self.now,
            join=lambda group: self.joined.update({number: group}),
        )
        return self.channels[number]

    def _to_group(self, datagram):
        for number in self.joined.keys() - self.deaf:
            self._carry(datagram, lambda to=self.channels[number]: to.receive_from_group(datagram))

    def _to_device(self, datagram, address):
        def arrive():
            if address[1] in self.channels:
                self.channels[address[1]].receive(datagram)

        self._carry(datagram, arrive)

    def _carry(self, datagram, arrive):
        self.carried.append(datagram)
        for _ in range(1 + (self._random.random() < self.double)):
            if self._random.random() >= self.loss:
                delay = 0.001 + 0.002 * self._random.random()
                heappush(self._heap, (self.now + delay, next(self._numbers), arrive))

    def run(self, seconds, until=lambda: False):
        """Let time pass, until something has happened."""
        end = self.now + seconds
        while self.now < end and not until():
            waits = [self.hub.tick(), *(channel.tick() for channel in self.channels.values())]
            step = self.now + min(0.05, *waits)
            while self._heap and self._heap[0][0] <= step and not until():
                self.now, _, arrive = heappop(self._heap)
                arrive()
            self.now = max(self.now, min(step, end))


def unread(channel):
    """What has come in, without waiting."""
    return [channel._inbox._queue.get_nowait() for _ in range(channel._inbox._queue.qsize())]
