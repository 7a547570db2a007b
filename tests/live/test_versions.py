"""Versions of the protocol: peers that understand each other work together, others wait and say why."""

import asyncio
import json
import re

import device_1
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import Mosquitto, Trial
from tasks import Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from live import TOPICS, Play, planned_updates, play, prepare, simulated_models
from slotwise.live.device.client import Device, NotUnderstood
from slotwise.live.device.device_host import DeviceConfig, _DeviceHost
from slotwise.live.protocol import (
    FIRST_WITH_SLOTS,
    OLDEST,
    PROTOCOL,
    Label,
    Topics,
    Versions,
    decode,
    encode,
    own_versions,
    versions_of_run,
)
from slotwise.live.server.server_config import LivePlan
from slotwise.live.transport import MemoryBroker, Message
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import model_sha256
from slotwise.scenario import Scenario

OURS = own_versions()
FUTURE = {"protocol": str(PROTOCOL + 2), "oldest": str(PROTOCOL + 1), "slotwise": "9.0"}
FIRST_OPTIONS = {  # that devices of protocol 1 know
    *("devices", "group_size", "compute_slots", "link_slots", "deadline", "bits"),
    *("data", "partition", "samples_per_device", "sample_skew", "device_samples", "labels_per_device"),
    *("concentration", "input_scale", "data_seed", "data_folder", "folder_shape", "folder_classes"),
    *("task", "network", "channels", "hidden", "backend", "model_seed"),
    *("local_steps", "batch_size", "learning_rate", "update", "optimizer", "momentum", "beta1", "beta2"),
    *("epsilon", "weight_decay", "gradient_clip", "proximal", "rate_decay", "rate_unit", "rate_period"),
    *("local_step", "seed"),
}
SMALL = Scenario(devices=3, group_size=1, compute_slots=2, deadline=100)


@pytest.mark.parametrize(
    ("fields", "understood"),
    [
        ({}, True),  # protocol 1 had no versions
        (OURS.fields(), True),
        ({"protocol": str(PROTOCOL + 5), "oldest": str(PROTOCOL)}, True),
        ({"protocol": str(PROTOCOL + 1)}, False),
        (FUTURE, False),
        ({"protocol": "two"}, False),
        ({"protocol": "-2"}, False),
        ({"protocol": str(PROTOCOL), "oldest": "x"}, False),
        ({"protocol": "9" * 5000, "oldest": "1"}, False),
    ],
    ids=["none", "ours", "later", "only later", "future", "text", "negative", "bad oldest", "huge"],
)
def test_peers_understand_each_other_if_they_share_a_version(fields, understood):
    assert OURS.understands(Versions.in_fields(fields)) == understood


@given(*[st.tuples(st.integers(1, 9), st.integers(1, 9)).map(sorted)] * 2)
def test_understanding_is_mutual(one, other):
    first, second = (Versions(newest, oldest, "") for oldest, newest in (one, other))
    assert first.understands(second) == second.understands(first)


@given(st.text())
def test_the_build_of_a_peer_is_printable_whatever_it_sends(build):
    shown = str(Versions.in_fields({"protocol": "2", "slotwise": build}))
    assert re.fullmatch("[ -~]{1,80}", shown)


def test_a_device_of_the_previous_version_and_one_of_this_give_the_simulators_models():
    live = prepare(SMALL, "async", rounds=9)

    async def previous(broker):
        async def make(fields):
            return Arithmetic()

        async with broker.connect(device_1.Device.last_will(TOPICS, 2, "old")) as channel:
            executor = VirtualExecutor(live.clock)
            await device_1.Device(2, TOPICS, channel, make, executor, "old").run()

    async def scenario(clock):
        live.clock = clock
        return await Play(live, clock).run([1, 2, 3], instead={2: previous})

    run_virtual(scenario)
    assert live.updates == planned_updates(live.plan)
    expected = simulated_models(live.plan)
    assert all((live.models[version] == expected[version]).all() for version in expected)
    versions = {topic: "protocol" in frame.fields for topic, frame in live.wire if topic.endswith("/here")}
    assert versions == {TOPICS.from_device(n, "here"): n != 2 for n in (1, 2, 3)}


def test_the_server_tells_an_incompatible_device_its_versions_and_plays_without_it():
    live = prepare(SMALL, "async", rounds=6)

    async def future(broker):
        async with broker.connect() as channel:
            await channel.subscribe(TOPICS.to_device(3, "+"))
            await channel.publish(
                TOPICS.from_device(3, "here"), encode(Label("run", 3), boot="x", holds="", **FUTURE)
            )
            await asyncio.get_running_loop().create_future()

    async def meanwhile(part):
        await live.reaches(2)

    play(live, instead={3: future}, meanwhile=meanwhile)
    answers = [frame.fields for topic, frame in live.wire if topic == TOPICS.to_device(3, "incompatible")]
    assert [Versions.in_fields(fields) for fields in answers] == [OURS]
    assert {device for _, device, _ in live.updates} == {1, 2}
    (rejection,) = live.rejections
    assert str(Versions.in_fields(FUTURE)) in str(rejection)
    assert str(OURS) in str(rejection)


def with_announcements(*announcements, make=None, runs=None):
    """Announce runs one after another to a device; return the runs it joined and its notices."""
    joined, notices = [], []

    async def usual(fields):
        return Arithmetic()

    async def run(clock):
        broker = MemoryBroker()
        async with broker.connect() as server, broker.connect() as channel:
            await server.subscribe(TOPICS.from_device(1, "here"))
            device = Device(1, TOPICS, channel, make or usual, VirtualExecutor(clock), notice=notices.append)
            running = asyncio.create_task(device.run())
            await clock.sleep(1.0)
            for number, fields in enumerate(announcements):
                run = f"run{number}" if runs is None else runs[number]
                frame = encode(Label(run), devices="1", **fields)
                await server.publish(TOPICS.to_all("call"), frame)
            await clock.sleep(1.0)
            assert not running.done()
            running.cancel()
            while not server.inbox.empty():
                arrival = server.inbox.get_nowait()
                if isinstance(arrival, Message):
                    joined.append(decode(arrival.payload).label.run)

    run_virtual(run)
    return joined, notices


def test_a_device_waits_for_another_run_if_it_does_not_understand_the_server():
    joined, notices = with_announcements(FUTURE, {})
    assert joined == ["run0", "run1"]  # it tells a server that compares versions its own, and no other
    (notice,) = notices
    assert str(Versions.in_fields(FUTURE)) in notice
    assert str(OURS) in notice


def test_a_device_joins_the_same_run_after_an_upgrade_of_the_server():
    joined, notices = with_announcements({"protocol": "1"}, OURS.fields(), runs=["run", "run"])
    assert joined == ["run", "run"]
    joined, notices = with_announcements({**FUTURE, "protocol": "x"}, OURS.fields(), runs=["run", "run"])
    assert joined == ["run"]
    assert len(notices) == 1


def test_a_device_waits_for_another_run_if_it_does_not_understand_the_announcement():
    async def make(fields):
        if "strange" in fields:
            raise NotUnderstood("it is strange")
        return Arithmetic()

    joined, notices = with_announcements({"strange": ""}, OURS.fields(), make=make)
    assert joined == ["run1"]
    assert len(notices) == 1


def test_a_device_waits_when_the_server_says_that_it_is_incompatible():
    notices = []

    async def make(fields):
        return Arithmetic()

    async def run(clock):
        broker = MemoryBroker()
        async with broker.connect() as server, broker.connect() as channel:
            await server.subscribe(TOPICS.from_device(1, "+"))
            device = Device(1, TOPICS, channel, make, VirtualExecutor(clock), notice=notices.append)
            running = asyncio.create_task(device.run())
            await clock.sleep(1.0)
            await server.publish(TOPICS.to_all("call"), encode(Label("run"), devices="1"))
            await server.publish(TOPICS.to_device(1, "incompatible"), encode(Label("run", 1), **FUTURE))
            (topic,) = TOPICS.to_receivers([1])
            model = encode(Label("run"), Arithmetic().initial_model(), receivers="1:0")
            await server.publish(topic, model)
            await clock.sleep(1.0)
            assert not running.done()
            running.cancel()
            return device

    device = run_virtual(run)
    assert len(notices) == 1
    assert device.trainings == 0


def test_an_answer_to_another_client_with_other_versions_does_not_stop_a_device():
    live = prepare(SMALL, "async", rounds=12)

    async def impersonate(play):
        await live.reaches(2)
        async with play.broker.connect() as channel:
            frame = encode(Label("run", 3), boot="x", holds="", **FUTURE)
            await channel.publish(TOPICS.from_device(3, "here"), frame)
        await live.reaches(5)

    play(live, meanwhile=impersonate)
    assert [topic for topic, _ in live.wire].count(TOPICS.to_device(3, "incompatible")) == 1
    assert any(device == 3 and k > 5 for k, device, _ in live.updates)


def test_fields_that_are_not_known_are_ignored():
    joined, notices = with_announcements({**OURS.fields(), "moon": "full"})
    assert (joined, notices) == (["run0"], [])


CONFIG = RunConfig.from_options({"devices": 4, "group_size": 2, "samples_per_device": 20})


def build(table):
    host = _DeviceHost(Topics("test"), DeviceConfig(), [1], 1, lambda _: None)
    try:
        return host._build(json.dumps(table))
    finally:
        host.pool.shutdown()


def test_devices_are_told_what_they_train_in_options_of_the_first_version():
    told = LivePlan.of(CONFIG).options_for_devices()
    assert set(told) <= FIRST_OPTIONS
    assert told["samples_per_device"] == 20
    assert len(build(told).initial_model()) == 21_840


def test_what_only_the_server_does_is_not_told_to_devices():
    options = {"aggregation": "fedasync", "schedule": "async", "momentum": 0.5}
    told = LivePlan.of(RunConfig.from_options(options)).options_for_devices()
    assert set(told) <= FIRST_OPTIONS
    assert told["momentum"] == 0.5


def test_a_run_with_an_option_that_the_device_does_not_know_makes_it_wait():
    with pytest.raises(NotUnderstood, match="tilt, warp"):
        build({**LivePlan.of(CONFIG).options_for_devices(), "warp": 9, "tilt": 1})


@pytest.mark.parametrize(
    "table", [[], 3, {**CONFIG.options(), "network": "of-tomorrow"}, {**CONFIG.options(), "devices": -1}]
)
def test_an_announcement_that_cannot_be_used_makes_a_device_wait(table):
    with pytest.raises(NotUnderstood):
        build(table)


IN_SLOTS = versions_of_run(in_slots=True).fields()


def test_a_device_without_beacons_waits_for_another_run_than_one_with_grants_ahead():
    joined, notices = with_announcements({**IN_SLOTS, "slots": "100:20:10"}, OURS.fields())
    assert joined == ["run1"]
    (notice,) = notices
    assert "it grants slots ahead of time, which this connection does not support" in notice


def test_a_device_of_the_previous_protocol_waits_for_a_run_with_grants_ahead_and_says_why(monkeypatch):
    previous = OURS._replace(protocol=FIRST_WITH_SLOTS - 1)
    monkeypatch.setattr("slotwise.live.device.client.own_versions", lambda: previous)
    joined, notices = with_announcements({**IN_SLOTS, "slots": "100:20:10"}, OURS.fields())
    assert joined == ["run0", "run1"]
    (notice,) = notices
    assert "the server speaks protocol 3" in notice
    assert not versions_of_run(in_slots=True).understands(previous)
    assert versions_of_run(in_slots=False).understands(previous)


def test_this_build_still_understands_the_previous_version():
    assert OLDEST <= PROTOCOL - 1


@pytest.fixture
def trial(tmp_path):
    broker = Mosquitto(tmp_path)
    started = Trial(tmp_path, broker)
    yield started
    started.close()
    broker.kill()


@pytest.mark.slow
def test_a_run_of_24_devices_of_the_previous_and_this_version_gives_the_simulators_model(trial):
    server = trial.serve(devices=24, group_size=4, compute_slots=4, deadline=150)
    previous = trial.process(trial.broker.address, "test", *range(1, 13), script="previous_devices.py")
    present = trial.fleet(devices=12, first=13)
    for process in (server, previous, present):
        process.ends()
    plan = RunFolder.open(trial.out).parameters().simulate()
    assert trial.run["status"] == "finished"
    assert trial.run["rounds"] == plan.rounds
    assert {device for _, device, _ in trial.uplinks} == set(range(1, 25))
    assert trial.run["model_sha256"] == model_sha256(simulated_models(plan)[plan.rounds])
    assert not trial.serious_rejections
