"""Options of devices, and devices in one process."""

import json
import sys

import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.learning import TrainingStart
from slotwise.live.device.client import NotUnderstood
from slotwise.live.device.device_host import DeviceConfig, Excluded, _DeviceHost, run_device, run_fleet
from slotwise.live.protocol import Topics
from slotwise.live.server.server_config import LivePlan
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task


@pytest.mark.parametrize("devices", [[5], [1, 2]])
def test_all_excluded_devices_are_named(devices):
    error = Excluded(devices)
    assert error.devices == tuple(devices)
    assert ", ".join(map(str, devices)) in str(error)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timeout", -1.0),
        ("timeout", float("inf")),
        ("keepalive", 0),
        ("keepalive", 70_000),
        ("task", "nosuch"),
        ("task", "nosuch:make"),
    ],
)
def test_options_out_of_range_are_refused(option, value):
    with pytest.raises(InputError) as error:
        DeviceConfig(**{option: value})
    assert error.value.parameter == option


@pytest.mark.parametrize(
    ("parameter", "run"),
    [
        ("id", lambda: run_device(0)),
        ("devices", lambda: run_fleet(0)),
        ("devices", lambda: run_fleet(10_001)),
        ("first", lambda: run_fleet(1, first=0)),
        ("workers", lambda: run_fleet(1, workers=0)),
    ],
    ids=["id", "no devices", "too many devices", "first", "workers"],
)
def test_numbers_out_of_range_are_refused(parameter, run):
    with pytest.raises(InputError) as error:
        run()
    assert error.value.parameter == parameter


def test_a_device_does_not_attack_because_the_network_says_so():
    config = RunConfig.from_options({"devices": 4, "group_size": 2, "samples_per_device": 20})
    attack = config.with_options(attack="sign-flip", attack_share=1.0, attack_scale=7.0)
    assert len(attack.attackers()) == 4
    host = _DeviceHost(Topics("test"), DeviceConfig(), [1], 1, lambda _: None)
    try:
        model = build_task(config).initial_model()
        honest, told = (
            task.local_update(model, TrainingStart(1, 0))
            for task in (build_task(config), host._build(json.dumps(attack.options())))
        )
    finally:
        host.pool.shutdown()
    assert np.array_equal(honest, told)


def test_a_device_imports_no_rule_that_the_network_names(tmp_path, monkeypatch):
    (tmp_path / "foreign_rule.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig.from_options({"devices": 4, "group_size": 2, "samples_per_device": 20})
    foreign = config.with_options(aggregation="foreign_rule:rule")
    host = _DeviceHost(Topics("test"), DeviceConfig(), [1], 1, lambda _: None)
    assert len(host._build(json.dumps(foreign.options())).initial_model()) == 21_840
    assert "foreign_rule" not in sys.modules


def test_a_device_runs_only_the_step_that_it_was_started_with():
    config = RunConfig.from_options({"devices": 4, "group_size": 2, "samples_per_device": 20})
    own = config.with_options(local_step="nosuch:step")
    host = _DeviceHost(Topics("test"), DeviceConfig(), [1], 1, lambda _: None)
    with pytest.raises(NotUnderstood, match="local_step nosuch:step"):
        host._build(json.dumps(own.options()))


def test_a_device_divides_the_data_with_the_partition_that_it_was_started_with(tmp_path, monkeypatch):
    (tmp_path / "own_live_partition.py").write_text(
        "import numpy as np\n"
        "def first(dataset, devices, generator, *, count: int = 5):\n"
        "    return [np.arange(count) + count * device for device in range(devices)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = {"partition": "own_live_partition:first", "partition_options": {"count": 3}, "network": "logistic"}
    config = RunConfig.from_options({"devices": 4, "group_size": 2, **own})
    told = json.dumps(LivePlan.of(config).options_for_devices())
    hosts = [
        _DeviceHost(Topics("test"), DeviceConfig(partition=name), [1], 1, lambda _: None)
        for name in (None, own["partition"])
    ]
    with pytest.raises(NotUnderstood, match="partition own_live_partition:first"):
        hosts[0]._build(told)
    assert hosts[1]._build(told).samples.rows[1].tolist() == [3, 4, 5]
    with pytest.raises(InputError, match="partition"):
        DeviceConfig(partition="by-colour")
