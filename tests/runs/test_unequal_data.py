"""Runs whose devices hold different numbers of samples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.batch.job import run_work
from slotwise.data import Dataset, dataset_path
from slotwise.data.dataset_cache import write_dataset
from slotwise.learning.cnn_task import CnnTask
from slotwise.runs import RunConfig, RunFolder, resume, run
from slotwise.runs.bound_case import estimate_constants
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256

SMALL = {"devices": 4, "group_size": 2, "compute_slots": 2, "deadline": 20, "local_steps": 1, "batch_size": 8}


@pytest.fixture
def femnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """A small FEMNIST of five writers in the cache."""
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "cache"))
    draw, counts = np.random.default_rng(0), [3, 9, 20, 1, 12]
    count = sum(counts)
    dataset = Dataset(
        name="femnist",
        train_inputs=draw.integers(256, size=(count, 1, 28, 28)).astype(np.uint8),
        train_targets=draw.integers(62, size=count).astype(np.uint8),
        test_inputs=draw.integers(256, size=(6, 1, 28, 28)).astype(np.uint8),
        test_targets=draw.integers(62, size=6).astype(np.uint8),
        classes=62,
        offset=(0.9,),
        scale=(0.2,),
        owners=draw.permutation(np.repeat(np.arange(5), counts)),
    )
    write_dataset(dataset, dataset_path("femnist"))
    return dataset


def test_writers_train_as_devices(femnist: Dataset, tmp_path: Path) -> None:
    config = RunConfig.from_options({**SMALL, "data": "femnist", "partition": "natural"})
    task = build_task(config)
    assert isinstance(task, CnnTask)
    assert femnist.owners is not None
    for rows in task.samples.rows:
        assert len(np.unique(femnist.owners[rows])) == 1
    result = run(config, tmp_path / "run", workers=1)
    assert result.history.rounds == result.timeline.rounds
    again = run(config, tmp_path / "again", workers=2)
    assert model_sha256(again.history.model) == model_sha256(result.history.model)


def test_too_many_devices_are_refused_and_no_folder_is_left(femnist: Dataset, tmp_path: Path) -> None:
    config = RunConfig.from_options({**SMALL, "devices": 6, "data": "femnist", "partition": "natural"})
    with pytest.raises(InputError, match="at most 5") as refused:
        run(config, tmp_path / "run")
    assert refused.value.parameter == "devices"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options", [{"sample_skew": 0.5}, {"device_samples": (3, 100, 1, 40)}])
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_unequal_devices_train_and_resume(options: dict[str, object], backend: str, tmp_path: Path) -> None:
    config = RunConfig.from_options({**SMALL, **options, "backend": backend})
    result = run(config, tmp_path / "run", workers=2)
    stored = RunFolder.open(tmp_path / "run").parameters()
    assert stored == config
    assert resume(tmp_path / "run").status == result.status == "finished"


def test_run_json_has_the_hash_of_data_that_was_fetched(femnist: Dataset, tmp_path: Path) -> None:
    config = RunConfig.from_options({**SMALL, "data": "femnist", "partition": "natural"})
    run(config, tmp_path / "run", workers=1)
    assert RunFolder.open(tmp_path / "run").description()["data_sha256"] == femnist.content_hash
    RunFolder.create(tmp_path / "begun", config)
    write_dataset(replace(femnist, owners=femnist.owners[::-1]), dataset_path("femnist"))  # type: ignore[index]
    with pytest.raises(UserError, match="femnist has changed"):
        resume(tmp_path / "begun")
    RunFolder.create(tmp_path / "other", config)
    assert RunFolder.open(tmp_path / "other").description()["data_sha256"] != femnist.content_hash
    dataset_path("femnist").write_bytes(b"damaged")
    for name, data in enumerate(("mnist", "shakespeare", "femnist")):
        folder = RunFolder.create(tmp_path / str(name), RunConfig.from_options({**SMALL, "data": data}))
        assert "data_sha256" not in folder.description()


def test_tasks_know_the_number_of_samples_and_more_are_more_work() -> None:
    task = build_task(RunConfig.from_options({**SMALL, "device_samples": (3, 100, 1, 40)}))
    assert isinstance(task, CnnTask)
    assert [task.sample_count(device) for device in (1, 2, 3, 4)] == [3, 100, 1, 40]
    few, many = (
        run_work(RunConfig.from_options({**SMALL, "device_samples": (count,) * 4})) for count in (10, 1000)
    )
    assert few < many


def test_constants_are_estimated_for_writers_other_networks_and_seeds(
    femnist: Dataset, tmp_path: Path
) -> None:
    config = RunConfig.from_options({**SMALL, "data": "femnist", "partition": "natural"})
    run(config, tmp_path / "run", workers=1)
    case = estimate_constants(RunFolder.open(tmp_path / "run"), rounds=3)
    assert case.constants.smoothness > 0
    assert case.setting.batch_size == min(len(rows) for rows in build_task(config).samples.rows)  # type: ignore[attr-defined]
    layers = {name: value for name, value in SMALL.items() if name not in ("channels", "hidden")}
    config = RunConfig.from_options({**layers, "network": "logistic", "data_seed": 3, "model_seed": 4})
    run(config, tmp_path / "other", workers=1)
    assert estimate_constants(RunFolder.open(tmp_path / "other"), rounds=3).constants.smoothness > 0
