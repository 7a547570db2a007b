"""The channel on MQTT, over real brokers."""

import asyncio
import signal
import socket
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from processes import Mosquitto, free_port

from slotwise.live.clock import Clock
from slotwise.live.protocol import Topics
from slotwise.live.server.outbox import RETAINED_MESSAGE_TIMEOUT, Announcement, Superseded
from slotwise.live.transport import Message
from slotwise.live.transport.broker import embedded_broker, parse_address
from slotwise.live.transport.mqtt import connected_channel
from slotwise.live.transport.outages import Outages

TOPICS = Topics("test")


@asynccontextmanager
async def mosquitto(folder):
    broker = Mosquitto(folder)
    try:
        yield parse_address(broker.address)
    finally:
        broker.kill()


def embedded(folder):
    return embedded_broker(free_port())


def cut(channel):
    """Break the connection, as a network does."""
    channel._client.socket.shutdown(socket.SHUT_RDWR)


async def is_connected(channel):
    while not channel.connected:
        await asyncio.sleep(0.01)


class PatientClock(Clock):
    """Waits so long for what a broker has retained that a busy machine does not matter."""

    async def sleep(self, seconds):
        await asyncio.sleep(max(seconds, 60.0) if seconds >= RETAINED_MESSAGE_TIMEOUT else seconds)


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
            async with connected_channel(parse_address(broker.address), "server") as server:
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
        address = parse_address(broker.address)
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


@pytest.mark.parametrize("early", [True, False], ids=["listening before", "coming after"])
def test_a_server_that_was_away_learns_of_the_newer_one(tmp_path, early):
    """The order in which a real broker passes on calls, and gives back what it has kept, is what
    `Announcement` relies on. The newer may have received the older's live, or as it was retained."""

    async def heard():
        async with (
            mosquitto(tmp_path) as broker,
            connected_channel(broker, "older") as older,
            connected_channel(broker, "newer") as newer,
        ):
            calls = [Announcement("run", {}, channel, TOPICS, PatientClock()) for channel in (older, newer)]
            await older.subscribe(TOPICS.to_all("call"))
            if early:
                await newer.subscribe(TOPICS.to_all("call"))
                await is_connected(newer)
            first = asyncio.create_task(listen(calls[0], older))
            await made(calls[0])
            cut(older)
            await newer.subscribe(TOPICS.to_all("call"))
            second = asyncio.create_task(listen(calls[1], newer))
            with pytest.raises(Superseded):
                await first
            await asyncio.sleep(RETAINED_MESSAGE_TIMEOUT + 0.5)  # nothing else comes
            assert not second.done()
            second.cancel()

    asyncio.run(asyncio.wait_for(heard(), 60))


async def listen(call, channel):
    async for arrival in channel.arrivals():
        if isinstance(arrival, Message):
            await call.receive(arrival, 0)
        else:
            await call.connected(arrival.number, 0)


async def made(call):
    while not call._made_in:
        await asyncio.sleep(0.01)


def test_many_clients_of_one_process_outlive_broken_connections_while_others_send(tmp_path):
    async def sent():
        async with mosquitto(tmp_path) as broker, AsyncExitStack() as stack:
            channels = [
                await stack.enter_async_context(connected_channel(broker, f"client-{number}"))
                for number in range(8)
            ]
            for channel in channels:
                await is_connected(channel)

            async def send(channel):
                for _ in range(5):
                    await channel.publish("x", bytes(3_000_000), acknowledged=False)
                    await channel.publish("x", bytes(3_000_000))

            sending = [asyncio.create_task(send(channel)) for channel in channels[:4]]
            for channel in channels[4:] * 3:
                await is_connected(channel)
                cut(channel)
                await asyncio.sleep(0.1)
            await asyncio.gather(*sending)

    asyncio.run(asyncio.wait_for(sent(), 120))


def test_a_lost_broker_is_told_once_for_all_clients_and_so_is_its_return(tmp_path):
    said = []

    async def lost():
        broker, outages = Mosquitto(tmp_path), Outages(said.append)
        address = parse_address(broker.address)
        try:
            async with (
                connected_channel(address, "one", outages=outages) as one,
                connected_channel(address, "two", outages=outages) as two,
            ):
                for words in (1, 3):
                    await is_connected(one)
                    await is_connected(two)
                    broker.kill()
                    while len(said) < words:
                        await asyncio.sleep(0.01)
                    broker.start()
                    while len(said) == words:
                        await asyncio.sleep(0.01)
        finally:
            broker.kill()

    asyncio.run(asyncio.wait_for(lost(), 120))
    assert said == ["connection to the broker lost; reconnecting", "connected again"] * 2


def free_port_on_ipv6():
    port = free_port()
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", port))
    except OSError:
        pytest.skip("this machine has no IPv6")
    return port


def test_the_embedded_broker_listens_on_ipv6_too():
    port = free_port_on_ipv6()

    async def reached():
        async with (
            embedded_broker(port, "::1") as broker,
            connected_channel(parse_address(str(broker)), "client") as channel,
        ):
            await is_connected(channel)

    asyncio.run(asyncio.wait_for(reached(), 60))
