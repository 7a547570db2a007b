import contextlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slotwise.data import DataError, Dataset
from slotwise.data.dataset_cache import cache_folder, read_dataset, write_dataset


@pytest.fixture
def dataset() -> Dataset:
    generator = np.random.default_rng(0)
    return Dataset(
        name="small",
        train_inputs=generator.integers(256, size=(20, 3, 4, 4)).astype(np.uint8),
        train_targets=generator.integers(5, size=20).astype(np.uint8),
        test_inputs=generator.integers(256, size=(10, 3, 4, 4)).astype(np.uint8),
        test_targets=generator.integers(5, size=10).astype(np.uint8),
        classes=5,
        offset=(0.1, 0.2, 0.3),
        scale=(0.4, 0.5, 0.6),
    )


def test_a_data_set_comes_back_whole_and_nothing_else_is_left(dataset: Dataset, tmp_path: Path) -> None:
    write_dataset(dataset, tmp_path / "new" / "small.npz")
    again = read_dataset(tmp_path / "new" / "small.npz")
    assert again.content_hash == dataset.content_hash
    assert (again.name, again.classes) == ("small", 5)
    assert (again.offset, again.scale) == (dataset.offset, dataset.scale)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["small.npz"]


def test_a_write_that_fails_half_way_leaves_nothing(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(DataError, match=r"small.npz cannot be written: .*No space left on device"):
        write_dataset(dataset, tmp_path / "small.npz")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_keeps_the_file_that_was_there(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "small.npz"
    write_dataset(dataset, path)
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(dataset, path)
    assert list(tmp_path.iterdir()) == [path]
    assert read_dataset(path).content_hash == dataset.content_hash


def test_a_file_being_read_stays_whole_while_it_is_replaced(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    write_dataset(dataset, path)
    before = path.read_bytes()
    with path.open("rb") as reading:
        write_dataset(replace(dataset, name="another name"), path)
        assert reading.read() == before
    assert read_dataset(path).name == "another name"


def test_a_place_that_cannot_be_written_is_named(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file/small.npz cannot be written: "):
        write_dataset(dataset, tmp_path / "file" / "small.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"small.npz does not exist"):
        read_dataset(tmp_path / "small.npz")


def test_every_changed_byte_is_noticed_or_harmless(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    write_dataset(dataset, path)
    raw = path.read_bytes()
    for place in range(0, len(raw), 13):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 0xFF]) + raw[place + 1 :])
        with contextlib.suppress(DataError):
            assert read_dataset(path).content_hash == dataset.content_hash


def test_every_truncation_and_other_content_is_noticed(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    write_dataset(dataset, path)
    raw = path.read_bytes()
    for length in range(0, len(raw), 31):
        path.write_bytes(raw[:length])
        with pytest.raises(DataError, match=r"small.npz is damaged"):
            read_dataset(path)
    path.write_bytes(raw)
    with np.load(path) as stored:
        fields = dict(stored)
    fields["train_labels"] = fields["train_labels"][::-1].copy()
    np.savez(path, **fields)
    with pytest.raises(DataError, match=r"is damaged: content hash .*, must be"):
        read_dataset(path)


def test_files_with_objects_or_other_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", name=np.array([{}], object))
    with pytest.raises(DataError, match="is damaged"):
        read_dataset(tmp_path / "small.npz")
    np.save(tmp_path / "small.npy", np.zeros(3))
    shutil.move(tmp_path / "small.npy", tmp_path / "small.npz")
    with pytest.raises(DataError, match="is damaged"):
        read_dataset(tmp_path / "small.npz")


def test_the_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


@pytest.mark.parametrize("value", [None, ""])
def test_the_folder_is_otherwise_the_users_cache(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("SLOTWISE_CACHE", raising=False)
    if value is not None:
        monkeypatch.setenv("SLOTWISE_CACHE", value)
    assert cache_folder().is_absolute()
    assert cache_folder().name == "slotwise"
