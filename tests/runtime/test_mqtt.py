"""The channel on MQTT, over real brokers."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from processes import Mosquitto, free_port

from slotwise.runtime.channel import Message
from slotwise.runtime.embedded import embedded_broker
from slotwise.runtime.mqtt import broker_of, connected_channel
from slotwise.runtime.topics import Topics

TOPICS = Topics("test")


@asynccontextmanager
async def mosquitto(folder):
    broker = Mosquitto(folder)
    try:
        yield broker_of(broker.address)
    finally:
        broker.kill()


def embedded(folder):
    return embedded_broker(free_port())


async def models_heard(channel):
    """The numbers of the models that arrive before the end does."""
    numbers = []
    async for arrival in channel.arrivals():
        if isinstance(arrival, Message):
            if TOPICS.kind(arrival.topic) == "end":
                break
            numbers.append(int(arrival.payload))
    return numbers


@pytest.mark.parametrize("kind", [mosquitto, embedded])
def test_a_broadcast_is_one_publish_that_its_receivers_read_and_nobody_else(tmp_path, kind):
    broadcasts = [[1, 2, 3], [3], [2, 1], [], [1, 2, 3, 4], [4, 1]]

    async def device(broker, number, ready):
        async with connected_channel(broker, f"device-{number}") as channel:
            await channel.subscribe(TOPICS.as_receiver(number), TOPICS.to_all("end"))
            await channel.publish(TOPICS.from_device(number, "here"), b"")  # in order: it is subscribed then
            ready.release()
            return await models_heard(channel)

    async def heard():
        ready = asyncio.Semaphore(0)
        async with kind(tmp_path) as broker, connected_channel(broker, "server") as server:
            devices = [asyncio.create_task(device(broker, number, ready)) for number in (1, 2, 3, 4)]
            for _ in devices:
                await ready.acquire()
            for number, receivers in enumerate(broadcasts):
                (topic,) = TOPICS.to_receivers(receivers)
                await server.publish(topic, str(number).encode())
            await server.publish(TOPICS.to_all("end"), b"over")
            return await asyncio.gather(*devices)

    assert asyncio.run(asyncio.wait_for(heard(), 60)) == [[0, 2, 4, 5], [0, 2, 4], [0, 1, 4], [4, 5]]
