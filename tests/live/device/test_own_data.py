"""Devices that have the file with their own samples and no other."""

import json

import numpy as np
import pytest
from processes import UNBOUNDED, Mosquitto, Trial

from live import simulated_models
from slotwise.learning import TrainingStart
from slotwise.live.device.client import NotUnderstood
from slotwise.live.device.device_host import DeviceConfig, _DeviceHost
from slotwise.live.protocol import Topics
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256

CHANNEL = {"devices": 3, "group_size": 1, "compute_slots": 2, "deadline": 30}


@pytest.fixture
def folder(tmp_path):
    """Samples of three devices; only device 3 has the label 4."""
    place, draw = tmp_path / "samples", np.random.default_rng(0)
    place.mkdir()
    for name, labels in {
        "device-1": [0, 1, 1],
        "device-2": [2, 3],
        "device-3": [4] * 7,
        "test": [0, 1],
    }.items():
        images = draw.integers(256, size=(len(labels), 1, 28, 28)).astype(np.uint8)
        np.savez(place / f"{name}.npz", x=images, y=np.array(labels))
    return place


@pytest.fixture
def config(folder):
    return RunConfig.from_options({"data_folder": str(folder), **CHANNEL})


def split(folder, number):
    """The folder of one device."""
    own = folder.parent / f"on-device-{number}"
    own.mkdir()
    (own / f"device-{number}.npz").write_bytes((folder / f"device-{number}.npz").read_bytes())
    return own


def build(config, numbers=(2,), **options):
    host = _DeviceHost(Topics("test"), DeviceConfig(**options), [*numbers], 1, print)
    try:
        return host._build(json.dumps({**config.options(), "task": None}))
    finally:
        host.pool.shutdown()


@pytest.mark.parametrize("numbers", [(1,), (2,), (3,), (1, 3)])
def test_its_updates_are_those_of_the_simulator(folder, config, numbers):
    simulated = build_task(config)
    own = split(folder, numbers[0])
    for number in numbers[1:]:
        (own / f"device-{number}.npz").write_bytes((folder / f"device-{number}.npz").read_bytes())
    for file in folder.iterdir():
        file.unlink()
    task = build(config, numbers, data_folder=str(own))
    model = task.initial_model()
    assert np.array_equal(model, simulated.initial_model())
    for number in numbers:
        start = TrainingStart(number, 5)
        assert np.array_equal(task.local_update(model, start), simulated.local_update(model, start))


def test_a_run_with_a_data_folder_needs_one_on_the_device(config):
    with pytest.raises(NotUnderstood, match="data_folder"):
        build(config)


def test_a_data_folder_is_refused_for_other_runs(folder):
    with pytest.raises(NotUnderstood, match="no data_folder"):
        build(RunConfig.from_options(CHANNEL), data_folder=str(folder))


def test_a_missing_file_is_named(folder, config):
    own = split(folder, 1)
    with pytest.raises(NotUnderstood, match=r"device-2\.npz does not exist"):
        build(config, data_folder=str(own))


def test_other_samples_than_announced_are_refused(folder, config):
    own = split(folder, 1)
    (own / "device-1.npz").rename(own / "device-2.npz")
    with pytest.raises(NotUnderstood, match="other samples"):
        build(config, data_folder=str(own))


@pytest.mark.slow
def test_devices_with_their_own_files_train_as_simulated(tmp_path, folder, config):
    broker = Mosquitto(tmp_path)
    trial = Trial(tmp_path, broker)
    try:
        server = trial.serve("--data-folder", folder, *UNBOUNDED, task=None, **CHANNEL)
        devices = [
            trial.process("device", *trial.where, "--id", n, "--data-folder", split(folder, n), "--quiet")
            for n in (1, 2, 3)
        ]
        for process in (server, *devices):
            process.ends()
        models = simulated_models(config.simulate(), build_task(config))
        assert trial.run["model_sha256"] == model_sha256(models[max(models)])
    finally:
        trial.close()
        broker.kill()
