"""Devices that speak protocol 1: previous_devices.py BROKER NAME ID...; they end with the run."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks import Arithmetic

sys.path.insert(0, str(Path(__file__).parent / "protocol_1"))
from device_1 import Device

from slotwise.live.protocol import Topics
from slotwise.live.transport.broker import parse_address
from slotwise.live.transport.mqtt import connected_channel


async def be(number, address, topics, pool):
    async def make(fields):
        return Arithmetic(0.02)

    boot = f"previous-{number}"
    will = Device.last_will(topics, number, boot)
    identifier = topics.client_id(f"device-{number}")
    async with connected_channel(parse_address(address), identifier, will=will, timeout=30) as channel:
        device = Device(number, topics, channel, make, pool, boot)
        await device.run()
    assert not device.excluded


async def main(address, name, *numbers):
    with ThreadPoolExecutor(4) as pool:
        await asyncio.gather(*(be(int(number), address, Topics(name), pool) for number in numbers))


asyncio.run(main(*sys.argv[1:]))
