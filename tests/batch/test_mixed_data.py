"""Runs of a batch that were trained on different data are not combined."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.batch import BatchFolder, BatchResults, BatchSpec, SerialExecutor, run_batch
from slotwise.batch.job import BatchObserver

from .test_serial_executor import Halving

Sweep = Callable[..., BatchResults]
OPTIONS = {"devices": 2, "group_size": 1, "compute_slots": 4, "deadline": 60, "evaluate_every": 30}


def write_data(folder: Path, shift: int) -> str:
    """Write a data folder for two devices."""
    folder.mkdir(exist_ok=True)
    for name in ("device-1", "device-2", "test"):
        np.savez(folder / f"{name}.npz", x=np.full((4, 1, 28, 28), shift, np.uint8), y=np.arange(4))
    return str(folder)


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """Sweeps over seeds and data folders into tmp_path/out."""

    def run(*folders: str, seeds: tuple[int, ...], observer: BatchObserver | None = None) -> BatchResults:
        spec = BatchSpec.of({"case": {**OPTIONS, "data_folder": [*folders]}}, seeds=seeds)
        executor = SerialExecutor(make_task=lambda _: Halving())
        return run_batch(spec, tmp_path / "out", executor=executor, observer=observer)

    return run


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_sweep_is_not_continued_with_other_data(tmp_path: Path, sweep: Sweep) -> None:
    data = write_data(tmp_path / "data", 1)
    sweep(data, seeds=(0,))
    before = content(tmp_path / "out")
    write_data(tmp_path / "data", 2)
    with pytest.raises(UserError, match="has changed") as refused:
        sweep(data, seeds=(0, 1))
    assert data in str(refused.value)
    assert "seed=0" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert content(tmp_path / "out") == before
    assert sweep(data, seeds=(0,)).is_finished  # nothing to train: the data of now do not matter
    write_data(tmp_path / "data", 1)
    assert sweep(data, seeds=(0, 1)).is_finished


class ChangesData(BatchObserver):
    """Writes other data when the first job has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def job_ended(self, *_: object) -> None:
        write_data(self.folder, 2)


def test_mixed_runs_have_no_results(tmp_path: Path, sweep: Sweep) -> None:
    data = write_data(tmp_path / "data", 1)
    with pytest.raises(UserError, match="has changed"):
        sweep(data, seeds=(0, 1), observer=ChangesData(tmp_path / "data"))
    with pytest.raises(UserError, match="has changed"):
        BatchResults.read(BatchFolder(tmp_path / "out"))


def test_different_folders_are_different_data_on_purpose(tmp_path: Path, sweep: Sweep) -> None:
    folders = write_data(tmp_path / "one", 1), write_data(tmp_path / "two", 2)
    sweep(*folders, seeds=(0,))
    assert sweep(*folders, seeds=(0, 1)).is_finished
