"""A device by itself: how it answers the server's messages."""

import asyncio

import pytest
from tasks import Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from live import TOPICS
from slotwise.live.device.client import Device
from slotwise.live.protocol import Label, decode, digest, encode
from slotwise.live.transport import Connected, MemoryBroker, Message

MODEL = Arithmetic().initial_model()


class Counting(Arithmetic):
    """Counts its trainings."""

    def __init__(self):
        super().__init__()
        self.trained = []

    def local_update(self, model, start):
        self.trained.append(start.training)
        return super().local_update(model, start)


class Peer:
    """A server that sends to device 1 what the test wants."""

    def __init__(self, server, device_channel, clock):
        self._server, self._arrivals = server, server.arrivals()
        self.device_channel, self.clock = device_channel, clock

    async def send(self, topic, label, vector=None, **fields):
        await self._server.publish(topic, encode(label, vector, **fields))

    async def send_bytes(self, topic, payload):
        await self._server.publish(topic, payload)

    async def broadcast(self, version, training, model=MODEL):
        (topic,) = TOPICS.to_receivers([1])
        await self.send(topic, Label("run", version=version), model, receivers=f"1:{training}")

    async def rest(self, holds=""):
        await self.send(TOPICS.to_device(1, "rest"), Label("run", 1), holds=holds)

    async def grant(self, version, training):
        label = Label("run", 1, version, version, training)
        await self.send(TOPICS.to_device(1, "grant"), label, grant="1")

    async def receives(self, kind):
        """Return the next message of a kind."""
        while True:
            arrival = await anext(self._arrivals)
            if getattr(arrival, "topic", "").endswith(f"/{kind}"):
                return decode(arrival.payload)


def with_device(scenario, seconds=0.0):
    """Let ``scenario(peer)`` speak with a device that has said that it is here; return task and device."""
    task = Counting()

    async def make(fields):
        return task

    async def run(clock):
        broker = MemoryBroker()
        async with broker.connect() as server, broker.connect() as channel:
            await server.subscribe(TOPICS.from_device(1, "+"))
            peer = Peer(server, channel, clock)
            device = Device(1, TOPICS, channel, make, VirtualExecutor(clock, {1: seconds}))
            peer.running = asyncio.create_task(device.run())
            await clock.sleep(1.0)  # it has subscribed
            await peer.send(TOPICS.to_all("call"), Label("run"), devices="2")
            await peer.receives("here")
            try:
                await scenario(peer)
            finally:
                peer.running.cancel()
                await asyncio.gather(peer.running, return_exceptions=True)
        return device

    return task, run_virtual(run)


def test_a_model_that_is_sent_twice_is_trained_once():
    async def scenario(peer):
        for _ in range(3):
            await peer.broadcast(4, 2)
        await peer.receives("ready")
        await peer.broadcast(5, 3)
        await peer.receives("ready")

    task, _ = with_device(scenario)
    assert task.trained == [2, 3]


def test_a_model_that_is_sent_again_after_its_training_is_answered_again():
    async def scenario(peer):
        await peer.broadcast(4, 2)
        await peer.receives("ready")
        await peer.broadcast(4, 2)
        assert (await peer.receives("ready")).label.version == 4

    task, _ = with_device(scenario)
    assert task.trained == [2]


def test_other_numbers_with_the_same_version_are_trained_anew():
    async def scenario(peer):
        await peer.broadcast(4, 2)
        await peer.receives("ready")
        await peer.broadcast(4, 2, MODEL + 1)
        await peer.receives("ready")

    task, _ = with_device(scenario)
    assert task.trained == [2, 2]


@pytest.mark.parametrize("version", [0, 4])
def test_a_rest_that_was_sent_before_the_work_does_not_erase_it(version):
    async def scenario(peer):
        await peer.broadcast(version, 2)
        await peer.rest(holds="")
        await peer.receives("ready")
        await peer.grant(version, 2)
        assert (await peer.receives("update")).label.version == version

    with_device(scenario)


def test_a_rest_that_names_the_work_takes_it_back():
    async def scenario(peer):
        await peer.broadcast(4, 2)
        await peer.receives("ready")
        await peer.rest(holds=f"4:2:{digest(MODEL)}")
        await peer.grant(4, 2)
        assert (await peer.receives("here")).fields["holds"] == ""

    with_device(scenario)


@pytest.mark.parametrize("training", ["", "-1", "x", "9" * 5000], ids=["empty", "negative", "text", "huge"])
def test_a_training_number_that_is_none_is_ignored(training):
    async def scenario(peer):
        await peer.broadcast(4, training)
        await peer.broadcast(5, 3)
        await peer.receives("ready")

    task, _ = with_device(scenario)
    assert task.trained == [3]


def test_messages_of_another_run_and_garbage_are_ignored_and_counted():
    async def scenario(peer):
        await peer.send(TOPICS.to_device(1, "grant"), Label("another", 1), grant="1")
        await peer.send_bytes(TOPICS.to_device(1, "work"), b"garbage")
        await peer.broadcast(4, 2)
        await peer.receives("ready")

    _, device = with_device(scenario)
    assert device.ignored == 2


def test_a_device_answers_a_call_while_it_trains():
    async def scenario(peer):
        await peer.broadcast(4, 2)
        await peer.clock.sleep(1.0)
        await peer.send(TOPICS.to_device(1, "call"), Label("run", 1))
        assert (await peer.receives("here")).fields["holds"].startswith("4:2:")

    task, _ = with_device(scenario, seconds=100.0)
    assert task.trained == []


def test_a_device_that_a_run_has_no_place_for_waits_for_another_run():
    async def scenario(peer):
        await peer.send(TOPICS.to_all("call"), Label("small"), devices="0")
        await peer.send(TOPICS.to_all("call"), Label("small"), devices="0")
        await peer.send(TOPICS.to_all("call"), Label("large"), devices="1")
        assert (await peer.receives("here")).label.run == "large"

    with_device(scenario)


@pytest.mark.parametrize("back", [False, True])
def test_an_excluded_device_waits_for_a_call_or_the_end(back):
    async def scenario(peer):
        await peer.send(TOPICS.to_device(1, "out"), Label("run", 1), seconds="60")
        if back:
            await peer.send(TOPICS.to_device(1, "call"), Label("run", 1))
            assert (await peer.receives("here")).fields["holds"] == ""
            await peer.send(TOPICS.to_device(1, "rest"), Label("run", 1), holds="")
        await peer.send(TOPICS.to_all("end"), Label("run", 1))
        await peer.running

    _, device = with_device(scenario)
    assert device.excluded == (not back)


def test_a_device_without_a_part_in_a_run_says_nothing_when_it_reconnects():
    async def scenario(peer):
        await peer.send(TOPICS.to_all("call"), Label("small"), devices="0")
        peer.device_channel.inbox.put_nowait(Connected(2))
        await peer.send(TOPICS.to_all("call"), Label("large"), devices="1")
        assert (await peer.receives("here")).label.run == "large"

    with_device(scenario)


@pytest.mark.parametrize(
    ("run", "retained", "over"), [("run", False, True), ("later", True, True), ("later", False, False)]
)
def test_a_device_that_was_offline_learns_that_its_run_has_ended(run, retained, over):
    async def scenario(peer):
        ended = Message(TOPICS.to_all("end"), encode(Label(run)), retained)
        peer.device_channel.inbox.put_nowait(ended)
        await peer.clock.sleep(1.0)
        assert peer.running.done() == over

    with_device(scenario)


@pytest.mark.parametrize("total", [4 * len(MODEL) + 1, 4 * len(MODEL) + 3, 4 * len(MODEL) + 4, 0, 10**12 - 1])
def test_a_model_of_another_size_makes_a_device_wait_for_another_run(total):
    async def scenario(peer):
        fields = {"offset": "0", "total": str(total), "sum": "0" * 8}
        await peer.send(TOPICS.to_device(1, "work"), Label("run", 1, 4, 4, 2), b"1234", **fields)
        await peer.receives("gone")  # the server need not wait for it
        await peer.send(TOPICS.to_all("call"), Label("another"), devices="1")
        assert (await peer.receives("here")).label.run == "another"

    task, _ = with_device(scenario)
    assert task.trained == []
