"""The channel on MQTT, over real brokers."""

import asyncio
import signal
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


async def is_connected(channel):
    while not channel.connected:
        await asyncio.sleep(0.01)


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


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("kind", [mosquitto, embedded])
def test_more_than_a_socket_takes_at_once_arrives_whole_and_in_order(tmp_path, kind, acknowledged):
    payloads = [bytes([number]) * size for number, size in enumerate([10, 20_000_000, 30, 5_000_000, 7])]

    async def heard():
        async with (
            kind(tmp_path) as broker,
            connected_channel(broker, "server") as server,
            connected_channel(broker, "device") as device,
        ):
            await device.subscribe("slotwise/large")
            await device.publish("slotwise/other", b"")  # in order: it is subscribed then
            for payload in payloads:
                await server.publish("slotwise/large", payload, acknowledged=acknowledged)
            arrivals = device.arrivals()
            got = []
            while len(got) < len(payloads):
                arrival = await anext(arrivals)
                if isinstance(arrival, Message):
                    got.append(arrival.payload)
            return got

    assert asyncio.run(asyncio.wait_for(heard(), 120)) == payloads


def test_what_a_frozen_broker_does_not_take_is_waited_for(tmp_path):
    async def sent():
        broker = Mosquitto(tmp_path)
        try:
            async with connected_channel(broker_of(broker.address), "server") as server:
                await is_connected(server)
                broker.process.send_signal(signal.SIGSTOP)
                sending = asyncio.create_task(server.publish("x", bytes(30_000_000), acknowledged=False))
                await asyncio.sleep(0.5)
                assert not sending.done()
                broker.process.send_signal(signal.SIGCONT)
                await asyncio.wait_for(sending, 60)
        finally:
            broker.kill()

    asyncio.run(sent())


def test_a_message_outlives_a_broker_that_dies_while_it_is_sent(tmp_path):
    async def heard():
        broker = Mosquitto(tmp_path)
        address = broker_of(broker.address)
        try:
            async with connected_channel(address, "server") as server:
                await is_connected(server)
                broker.process.send_signal(signal.SIGSTOP)
                sending = asyncio.create_task(server.publish("x", bytes(30_000_000), retain=True))
                await asyncio.sleep(0.3)
                broker.kill()
                broker.start()
                await asyncio.wait_for(sending, 60)
            async with connected_channel(address, "device") as device:
                await device.subscribe("x")
                async for arrival in device.arrivals():
                    if isinstance(arrival, Message):
                        return len(arrival.payload)
        finally:
            broker.kill()

    assert asyncio.run(asyncio.wait_for(heard(), 120)) == 30_000_000
