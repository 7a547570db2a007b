"""Models and updates that are sent in parts: the same run, also if parts are lost on the way."""

import asyncio
import random
from dataclasses import replace

import device_1
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import Mosquitto, Trial
from tasks import LARGE, SIZE, Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from live import TOPICS, Play, planned_updates, play, prepare, simulated_models
from slotwise.live.parts import Assembly, Place, checksum, frames, received_of
from slotwise.live.protocol import Label, Work, decode, encode
from slotwise.live.server.server_config import ServerConfig
from slotwise.live.transport import MemoryBroker
from slotwise.runs import RunFolder
from slotwise.runs.run_folder import model_sha256
from slotwise.scenario import Scenario

SMALL = Scenario(devices=3, group_size=1, compute_slots=2, deadline=100)
PART = 1024  # bytes; a model has 2,000
WORK = Work(3, 1)
LABEL = Label("run", 7, 3, *WORK)


def assembled(some_frames, first=b""):
    """The numbers in frames, after ``first`` of them."""
    assembly = None
    for payload in some_frames:
        frame = decode(payload)
        place = Place.in_fields(frame.fields)
        if assembly is None:
            assembly = Assembly(WORK, place)
            assembly.add(place._replace(offset=0), first)
        assert assembly.is_of(frame.work, place)
        assert assembly.add(place, frame.packed)
    return assembly.complete


@given(st.binary(min_size=2), st.data())
def test_parts_give_the_whole_from_any_byte_on(numbers, data):
    size = data.draw(st.integers(1, len(numbers) - 1))
    first = data.draw(st.integers(0, len(numbers) - 1))
    parts = list(frames(LABEL, numbers, {"grant": "5"}, size, first))
    assert assembled(parts, numbers[:first]) == numbers
    assert {decode(part).fields["grant"] for part in parts} == {"5"}


def test_numbers_that_fit_are_one_message():
    vector = np.arange(4, dtype=np.float32)
    (frame,) = map(decode, frames(LABEL, vector, {}, 16))
    assert Place.in_fields(frame.fields) is None
    assert np.array_equal(frame.vector, vector)


def test_a_part_after_a_gap_and_a_wrong_checksum_are_noticed():
    numbers = bytes(range(100))
    first, second, third = (decode(frame) for frame in frames(LABEL, numbers, {}, 40))
    assembly = Assembly(WORK, Place.in_fields(first.fields))
    assert assembly.add(Place.in_fields(first.fields), first.packed)
    assert not assembly.add(Place.in_fields(third.fields), third.packed)
    assert assembly.add(Place.in_fields(first.fields), first.packed)  # twice is no harm
    assert received_of(str(assembly), WORK, checksum(numbers)) == 40
    assert received_of(str(assembly), WORK, checksum(b"other")) == 0
    assembly.add(Place.in_fields(second.fields), bytes(40))
    assembly.add(Place.in_fields(third.fields), third.packed)
    assert assembly.received == 100
    assert assembly.complete is None


def in_parts(**options):
    live = prepare(SMALL, "async", rounds=9, **options)
    live.spec = replace(live.spec, part_bytes=PART)
    return live


def assert_as_simulated(live):
    assert live.updates == planned_updates(live.plan)
    expected = simulated_models(live.plan)
    assert all(np.array_equal(live.models[version], expected[version]) for version in expected)


def offsets(live, ending):
    return [int(frame.fields["offset"]) for topic, frame in live.wire if topic.endswith(ending)]


def test_a_run_in_parts_gives_the_simulators_models():
    live = play(in_parts())
    assert_as_simulated(live)
    assert not live.rejections
    assert set(offsets(live, "/update")) == {0, PART}
    sizes = [len(frame.packed) for topic, frame in live.wire if "/all/model" in topic and frame.packed]
    assert set(sizes) == {PART, 4 * SIZE - PART}


def test_a_device_of_the_previous_version_gets_whole_models_meanwhile():
    live = in_parts()

    async def scenario(clock):
        async def previous(broker):
            async def make(fields):
                return Arithmetic()

            async with broker.connect() as channel:
                await device_1.Device(2, TOPICS, channel, make, VirtualExecutor(clock), "old").run()

        return await Play(live, clock).run([1, 2, 3], instead={2: previous})

    assert_as_simulated(run_virtual(scenario))


class LossyBroker(MemoryBroker):
    """Loses some parts, but no two in a row: of a message that is lost as a whole, nobody knows.

    Nor does it lose the end of an update, which counts as not sent after a timeout.
    """

    def __init__(self, draw):
        super().__init__()
        self._draw, self.lost, self._lost_last = draw, 0, False

    def pass_on(self, message):
        frame = decode(message.payload) if message.payload else None
        place = frame and Place.in_fields(frame.fields)
        last = place and place.offset + len(frame.packed) == place.total
        may_be_lost = place and not self._lost_last and not (last and message.topic.endswith("update"))
        self._lost_last = bool(may_be_lost and self._draw.random() < 0.4) if place else self._lost_last
        if place and self._lost_last:
            self.lost += 1
            return
        super().pass_on(message)


@pytest.mark.parametrize("seed", range(5))
def test_lost_parts_are_sent_again_and_the_models_are_the_simulators(seed):
    live = in_parts()

    async def scenario(clock):
        part = Play(live, clock)
        part.broker = LossyBroker(random.Random(seed))
        await part.run([1, 2, 3])
        return part.broker.lost

    assert run_virtual(scenario) > 0
    assert_as_simulated(live)


class LosesEndOfUpdate(MemoryBroker):
    """Loses the second part of the first update."""

    def __init__(self):
        super().__init__()
        self.lost = asyncio.get_running_loop().create_future()

    def pass_on(self, message):
        if message.topic.endswith("/update") and not self.lost.done():
            frame = decode(message.payload)
            if frame.fields["offset"] != "0":
                self.lost.set_result(frame.label.device)
                return
        super().pass_on(message)


def test_an_interrupted_update_goes_on_where_it_was():
    live = in_parts()

    async def say_here(part):
        """Let the device say that it is here, as it does after a lost connection."""
        device = await part.broker.lost
        await part.channel.publish(TOPICS.to_device(device, "call"), encode(Label("run", device)))

    async def scenario(clock):
        part = Play(live, clock)
        part.broker = LosesEndOfUpdate()
        await part.run([1, 2, 3], meanwhile=say_here)

    run_virtual(scenario)
    assert_as_simulated(live)
    assert offsets(live, "/update")[:2] == [0, PART]
    (again,) = (frame for topic, frame in live.wire if topic.endswith("/grant") and "partial" in frame.fields)
    assert again.fields["partial"].endswith(f":{PART}")


@pytest.mark.parametrize("value", [0, 15, 1 << 20])
def test_packets_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match="packet_kib"):
        ServerConfig(packet_kib=value)


@pytest.mark.slow
def test_a_model_beyond_the_brokers_packets_is_sent_in_parts_to_real_devices(tmp_path):
    broker = Mosquitto(tmp_path, "max_packet_size 65536")
    trial = Trial(tmp_path, broker)
    try:
        server = trial.serve(
            "--packet-kib", 64, task="tasks:make_large", devices=3, group_size=1, deadline=40
        )
        fleet = trial.fleet(devices=3, task="tasks:make_large")
        server.ends()
        fleet.ends()
        plan = RunFolder.open(trial.out).parameters().simulate()
        expected = simulated_models(plan, Arithmetic(size=LARGE))
        assert trial.run["model_sha256"] == model_sha256(expected[plan.rounds])
    finally:
        trial.close()
        broker.kill()
