"""A device by itself: what it does with what it is told."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tasks import Arithmetic

from live import TOPICS
from slotwise.live.channel import Connected
from slotwise.live.device import Device
from slotwise.live.memory import MemoryBroker
from slotwise.live.wire import Label, decode, digest, encode

MODEL = Arithmetic().initial_model()


class Counting(Arithmetic):
    """Counts its trainings."""

    def __init__(self):
        super().__init__()
        self.trained = []

    def local_update(self, model, device, training):
        self.trained.append(training)
        return super().local_update(model, device, training)


class Told:
    """Device 1, and a server that says what the test wants."""

    def __init__(self, server, heard):
        self._server, self._heard = server, heard

    async def say(self, topic, label, vector=None, **words):
        await self._server.publish(topic, encode(label, vector, **words))

    async def broadcast(self, version, training, model=MODEL):
        (topic,) = TOPICS.to_receivers([1])
        await self.say(topic, Label("run", version=version), model, receivers=f"1:{training}")

    async def rest(self, holds=""):
        await self.say(TOPICS.to_device(1, "rest"), Label("run", 1), holds=holds)

    async def grant(self, version, training):
        label = Label("run", 1, version, version, training)
        await self.say(TOPICS.to_device(1, "grant"), label, grant="1")

    async def hears(self, kind):
        """The next message of a kind."""
        while True:
            arrival = await anext(self._heard)
            if getattr(arrival, "topic", "").endswith(f"/{kind}"):
                return decode(arrival.payload)


def with_device(scenario, task=None):
    """Let ``scenario(told)`` speak with a device that has said that it is here."""
    task = task or Counting()

    async def make(words):
        return task

    async def run():
        broker = MemoryBroker()
        with ThreadPoolExecutor(1) as pool:
            async with broker.connect() as server, broker.connect() as own:
                await server.subscribe(TOPICS.from_device(1, "+"))
                told = Told(server, server.arrivals())
                device = Device(1, TOPICS, own, make, pool)
                told.own, told.living = own, asyncio.create_task(device.run())
                await asyncio.sleep(0.01)
                await told.say(TOPICS.to_all("call"), Label("run"), devices="2")
                await told.hears("here")
                try:
                    await asyncio.wait_for(scenario(told), 20)
                finally:
                    told.living.cancel()
                    await asyncio.gather(told.living, return_exceptions=True)
        return device

    device = asyncio.run(run())
    return task, device


def test_a_model_that_is_said_twice_is_trained_once():
    async def scenario(told):
        for _ in range(3):
            await told.broadcast(4, 2)
        await told.hears("ready")
        await told.broadcast(5, 3)
        await told.hears("ready")

    task, _ = with_device(scenario)
    assert task.trained == [2, 3]


def test_a_model_that_is_said_again_when_it_is_trained_is_answered_again():
    async def scenario(told):
        await told.broadcast(4, 2)
        await told.hears("ready")
        await told.broadcast(4, 2)
        assert (await told.hears("ready")).label.version == 4

    task, _ = with_device(scenario)
    assert task.trained == [2]


def test_other_numbers_under_the_same_name_are_trained_anew():
    async def scenario(told):
        await told.broadcast(4, 2)
        await told.hears("ready")
        await told.broadcast(4, 2, MODEL + 1)
        await told.hears("ready")

    task, _ = with_device(scenario)
    assert task.trained == [2, 2]


@pytest.mark.parametrize("version", [0, 4])
def test_a_rest_that_was_said_before_the_work_does_not_erase_it(version):
    async def scenario(told):
        await told.broadcast(version, 2)
        await told.rest(holds="")
        await told.hears("ready")
        await told.grant(version, 2)
        assert (await told.hears("update")).label.version == version

    with_device(scenario)


def test_a_rest_that_names_the_work_takes_it_back():
    async def scenario(told):
        await told.broadcast(4, 2)
        await told.hears("ready")
        await told.rest(holds=f"4:2:{digest(MODEL)}")
        await told.grant(4, 2)
        assert (await told.hears("here")).words["holds"] == ""

    with_device(scenario)


@pytest.mark.parametrize("training", ["", "-1", "x", "9" * 5000])
def test_a_number_of_a_training_that_is_none_is_ignored(training):
    async def scenario(told):
        await told.broadcast(4, training)
        await told.broadcast(5, 3)
        await told.hears("ready")

    task, _ = with_device(scenario)
    assert task.trained == [3]


def test_messages_of_another_run_and_garbage_are_ignored_and_counted():
    async def scenario(told):
        await told.say(TOPICS.to_device(1, "grant"), Label("another", 1), grant="1")
        await told._server.publish(TOPICS.to_device(1, "work"), b"garbage")
        await told.broadcast(4, 2)
        await told.hears("ready")

    _, device = with_device(scenario)
    assert device.ignored == 2


def test_a_device_says_that_it_is_here_while_it_trains():
    class Slow(Counting):
        def local_update(self, model, device, training):
            time.sleep(0.5)
            return super().local_update(model, device, training)

    async def scenario(told):
        await told.broadcast(4, 2)
        await asyncio.sleep(0.1)
        await told.say(TOPICS.to_device(1, "call"), Label("run", 1))
        assert (await told.hears("here")).words["holds"].startswith("4:2:")

    with_device(scenario, Slow())


def test_a_device_that_a_run_has_no_place_for_waits_for_another_run():
    async def scenario(told):
        await told.say(TOPICS.to_all("call"), Label("small"), devices="0")
        await told.say(TOPICS.to_all("call"), Label("small"), devices="0")
        await told.say(TOPICS.to_all("call"), Label("large"), devices="1")
        assert (await told.hears("here")).label.run == "large"

    with_device(scenario)


@pytest.mark.parametrize("kind", ["out", "end"])
def test_a_device_ends_when_it_is_told_to(kind):
    async def scenario(told):
        topic = TOPICS.to_device(1, "out") if kind == "out" else TOPICS.to_all("end")
        await told.say(topic, Label("run", 1))
        await told.living

    _, device = with_device(scenario)
    assert device.shut_out == (kind == "out")


def test_a_device_without_a_part_in_a_run_says_nothing_when_it_connects_again():
    async def scenario(told):
        await told.say(TOPICS.to_all("call"), Label("small"), devices="0")
        told.own.inbox.put_nowait(Connected(2))
        await told.say(TOPICS.to_all("call"), Label("large"), devices="1")
        assert (await told.hears("here")).label.run == "large"

    with_device(scenario)
