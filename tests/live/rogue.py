"""A device that follows the protocol but for one thing: rogue.py MODE BROKER NAME ID."""

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from tasks import SIZE, Arithmetic

from slotwise.live.device.client import Device
from slotwise.live.protocol import Topics, decode, encode
from slotwise.live.transport.broker import parse_address
from slotwise.live.transport.mqtt import connected_channel


class RogueChannel:
    """Spoils what is published as an update."""

    def __init__(self, channel, mode):
        self._channel, self._mode, self._sent = channel, mode, []

    def __getattr__(self, name):
        return getattr(self._channel, name)

    async def publish(self, topic, payload, **how):
        if not topic.endswith("/update"):
            await self._channel.publish(topic, payload, **how)
            return
        for where, what in self._spoiled(topic, payload):
            await self._channel.publish(where, what)

    def _spoiled(self, topic, payload):
        frame = decode(payload)
        fields = {"grant": frame.fields["grant"]}
        match self._mode:
            case "nan":
                return [(topic, encode(frame.label, np.full(SIZE, np.nan, dtype=np.float32), **fields))]
            case "shape":
                return [(topic, encode(frame.label, np.ones(SIZE + 1, dtype=np.float32), **fields))]
            case "huge":
                return [(topic, encode(frame.label, np.ones(25_000_000, dtype=np.float32), **fields))]
            case "garbage":
                return [(topic, os.urandom(1000))]
            case "replay":
                self._sent.append(payload)
                return [(topic, old) for old in [*self._sent[:-1], payload, payload]]
            case "impersonate":
                other = topic.replace(f"/{frame.label.device}/", "/1/")
                label = frame.label._replace(device=1)
                return [(other, encode(label, frame.vector, **fields)), (other, payload), (topic, payload)]
            case "half":
                self._send_half_and_die(topic, payload)
                return []
            case _:
                raise ValueError(self._mode)

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
        self._channel._client._client.socket().sendall((b"\x32" + length + body)[: len(body) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


async def main(mode, address, name, number):
    topics = Topics(name)

    async def make(fields):
        return Arithmetic(0.02)

    will = Device.last_will(topics, number, "rogue")
    with ThreadPoolExecutor(1) as pool:
        async with connected_channel(
            parse_address(address), f"rogue-{number}", will=will, timeout=30
        ) as channel:
            await Device(number, topics, RogueChannel(channel, mode), make, pool, "rogue").run()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
