from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.data import Dataset
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import TrainingStart, local_training, train
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.scenario import Scenario
from slotwise.schedule import simulate


def test_the_largest_seed_is_allowed_and_the_mean_is_the_sum_over_the_steps() -> None:
    assert LocalTraining(seed=2**64 - 1).seed == 2**64 - 1
    assert LocalTraining(local_steps=5, update="sum").divisor(5) == 1
    assert LocalTraining(local_steps=5, update="mean").divisor(5) == 5


def test_samples_are_those_of_the_devices_and_count_once(samples: DeviceSamples) -> None:
    for device in range(1, 7):
        batches = samples.batches(LocalTraining(local_steps=3, batch_size=16), TrainingStart(device, 0))
        assert [len(rows) for rows in batches] == [16] * 3
        assert set(np.concatenate(batches).tolist()) <= set(samples.rows[device - 1].tolist())
    twice = DeviceSamples(samples.dataset, [*samples.rows, *samples.rows[:2]])
    assert np.array_equal(twice.union, samples.union)
    assert len(samples.union) == len(set(np.concatenate(samples.rows).tolist()))
    task = CnnTask(samples, Architecture((1, 28, 28), (), (), 10), LocalTraining(local_steps=2))
    for devices in (5, 7):
        timeline = simulate(Scenario(devices=devices, group_size=1, compute_slots=2), "async", rounds=2)
        with pytest.raises(UserError, match=f"6 devices, and the schedule has {devices}"):
            train(timeline, task)


@pytest.mark.parametrize(
    "rows", [[], [[]], [[0, -1]], [[10**6]], [[0.5]], [[True]], [["a"]], [[None, 1]]], ids=str
)
def test_rows_that_the_data_set_does_not_have_are_refused(
    samples: DeviceSamples, rows: list[list[int]]
) -> None:
    with pytest.raises(InputError):
        DeviceSamples(samples.dataset, rows)


IMAGES, LABELS = np.zeros((6, 1, 4, 4), np.uint8), np.arange(6) % 3
NETWORK = Architecture(input_shape=(1, 4, 4), convolutions=(), hidden=(), classes=3)


def images(**changes: Any) -> DeviceSamples:
    """Two devices with three images of three labels."""
    fields: dict[str, Any] = {"offset": (0.5,), "scale": (0.5,), "classes": 3, "inputs": IMAGES, **changes}
    inputs = fields.pop("inputs")
    return DeviceSamples(
        Dataset("tiny", inputs, LABELS, inputs, LABELS, **fields), [np.arange(3), np.arange(3, 6)]
    )


@pytest.mark.parametrize(
    ("changes", "architecture", "message"),
    [
        ({}, replace(NETWORK, input_shape=(1, 8, 8)), r"uint8\[1, 4, 4\]"),
        ({}, replace(NETWORK, classes=2), "label 2"),
        ({"inputs": np.zeros((6, 16)), "offset": (), "scale": ()}, NETWORK, r"float64\[16\]"),
        ({"offset": (), "scale": ()}, NETWORK, "offset and scale"),
    ],
    ids=["size", "classes", "floats", "no offset"],
)
def test_data_that_do_not_fit_the_network_are_refused(
    changes: dict[str, object], architecture: Architecture, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        CnnTask(images(**changes), architecture, LocalTraining())


@pytest.mark.parametrize("training", [{}, None], ids=["dict", "none"])
def test_what_is_no_training_is_refused(training: object) -> None:
    with pytest.raises(InputError, match="training ="):
        CnnTask(images(), NETWORK, training)  # type: ignore[arg-type]


def test_more_steps_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_training, "total_memory", lambda: 24_000)
    CnnTask(images(), NETWORK, LocalTraining(local_steps=1000))
    with pytest.raises(InputError, match="local_steps ="):
        CnnTask(images(), NETWORK, LocalTraining(local_steps=1001))


@pytest.mark.parametrize("rows", [3, "abc", [[1, [2]]], None], ids=["number", "text", "ragged", "none"])
def test_what_are_no_rows_is_refused(rows: object) -> None:
    with pytest.raises(InputError):
        DeviceSamples(images().dataset, rows)  # type: ignore[arg-type]
