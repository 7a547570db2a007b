"""A device that dies while it sends its first update: rogue.py BROKER NAME ID."""

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from tasks import Arithmetic

from slotwise.live.device.client import Device
from slotwise.live.protocol import Topics
from slotwise.live.transport.broker import parse_address
from slotwise.live.transport.mqtt import connected_channel


class RogueChannel:
    """Sends the first half of an update, and dies."""

    def __init__(self, channel):
        self._channel = channel

    def __getattr__(self, name):
        return getattr(self._channel, name)

    async def publish(self, topic, payload, **how):
        if topic.endswith("/update"):
            self._send_half_and_die(topic, payload)
        await self._channel.publish(topic, payload, **how)

    def _send_half_and_die(self, topic, payload):
        """The first half of an MQTT packet, straight onto the connection; then nothing ever again."""
        name = topic.encode()
        body = len(name).to_bytes(2, "big") + name + b"\x00\x63" + payload
        length, rest = b"", len(body)
        while True:
            length += bytes([rest % 128 + (128 if rest >= 128 else 0)])
            rest //= 128
            if not rest:
                break
        self._channel._client.socket.sendall((b"\x32" + length + body)[: len(body) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


async def main(address, name, number):
    topics = Topics(name)

    async def make(fields):
        return Arithmetic(0.02)

    will = Device.last_will(topics, number, "rogue")
    with ThreadPoolExecutor(1) as pool:
        async with connected_channel(
            parse_address(address), f"rogue-{number}", will=will, timeout=30
        ) as channel:
            await Device(number, topics, RogueChannel(channel), make, pool, "rogue").run()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
