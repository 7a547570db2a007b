"""What a device takes from an announcement: values of known options; whatever else comes, it waits."""

import asyncio
import json

import pytest
from tasks import Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from live import TOPICS
from slotwise.flower.project import FlowerApp
from slotwise.live.device.announced_run import MOST_SAMPLES, announced_config, announced_options
from slotwise.live.device.client import Device, NotUnderstood
from slotwise.live.device.device_host import MOST_NOTICES, DeviceConfig, _DeviceHost
from slotwise.live.protocol import MAX_DEVICES, Label, Topics, decode, encode
from slotwise.live.server.server_config import LivePlan
from slotwise.live.transport import MemoryBroker, Message
from slotwise.runs import RunConfig

CONFIG = RunConfig.from_options({"devices": 4, "group_size": 2, "samples_per_device": 20})
TOLD = LivePlan.of(CONFIG).options_for_devices()


@pytest.fixture
def host():
    made = _DeviceHost(Topics("test"), DeviceConfig(), [1], 1, lambda _: None)
    yield made
    made.pool.shutdown()


def test_a_device_takes_the_options_that_it_trains_by_and_no_others():
    everything = {**CONFIG.options(), "aggregation": "foreign:rule", "schedule": "foreign:policy"}
    taken = announced_options(json.dumps(everything))
    assert {"data", "partition", "network", "local_steps", "devices", "bits", "seed"} <= set(taken)
    assert not {"aggregation", "schedule", "selection", "attack", "radio_link", "task"} & set(taken)
    assert announced_config(json.dumps(TOLD), {}).training == CONFIG.training


def test_no_project_that_a_message_names_is_loaded(host, tmp_path, monkeypatch):
    loaded = []
    for method in ("__post_init__", "check", "make_task"):
        monkeypatch.setattr(FlowerApp, method, lambda app, *_: loaded.append(app), raising=False)
    with pytest.raises(NotUnderstood, match="flower_app"):
        host._build(json.dumps({**TOLD, "flower_app": str(tmp_path)}))
    assert loaded == []


@pytest.mark.parametrize(
    ("announced", "reason"),
    [
        ({"fleet_file": "/etc/passwd"}, "fleet_file"),
        ({"data_folder": "/etc"}, "data_folder"),
        ({"task": None, "option of tomorrow": 1}, "option of tomorrow"),
        ({"data": "no-such-data"}, "no-such-data"),
        ({"data": "hf:no/such-data"}, "no/such-data"),
        ({"data": ["mnist"]}, "data"),
        ({"partition": "os:system"}, "partition os:system"),
        ({"local_step": "os:system"}, "local_step os:system"),
        ({"devices": MAX_DEVICES + 1, "group_size": 1}, "devices"),
        ({"network": "mlp", "hidden": [10**9, 10**9], "channels": None}, "hidden"),
        ({"channels": [10**8]}, "channels"),
        ({"local_steps": MOST_SAMPLES}, "samples"),
        ({"samples_per_device": 10**15}, "samples"),
        ({"learning_rate": "fast"}, "learning_rate"),
    ],
)
def test_an_announcement_that_cannot_be_trained_names_the_option(host, announced, reason):
    with pytest.raises(NotUnderstood, match=reason):
        host._build(json.dumps({**TOLD, **announced}))


def test_a_device_waits_whatever_is_announced_and_joins_the_next_run(host, monkeypatch):
    notices, joined = [], []
    monkeypatch.setattr("slotwise.runs.execution.build_task", lambda *_, **__: Arithmetic())
    bad = ("[", json.dumps({**TOLD, "fleet_file": "x"}), json.dumps({**TOLD, "local_steps": 10**15}))

    async def announce(clock):
        broker = MemoryBroker()
        async with broker.connect() as server, broker.connect() as channel:
            await server.subscribe(TOPICS.from_device(1, "here"))
            device = Device(1, TOPICS, channel, host._task, VirtualExecutor(clock), notice=notices.append)
            running = asyncio.create_task(device.run())
            await clock.sleep(1.0)
            for number, parameters in enumerate((*bad, json.dumps(TOLD))):
                frame = encode(Label(f"run {number}"), devices="4", parameters=parameters)
                await server.publish(TOPICS.to_all("call"), frame)
            while not joined:
                arrival = await server.inbox.get()
                joined.extend([decode(arrival.payload).label.run] if isinstance(arrival, Message) else [])
            running.cancel()

    run_virtual(announce)
    assert joined == ["run 3"]
    assert len(notices) == 3
    assert "fleet_file" in notices[1]


def test_the_notices_that_a_device_remembers_are_bounded(host):
    for number in range(3 * MOST_NOTICES):
        host._notice_once(f"refused option {number}")
    assert len(host._noticed) <= MOST_NOTICES
