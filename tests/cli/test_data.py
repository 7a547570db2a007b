from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Cli = Callable[..., tuple[int, str, str]]


def test_training_on_data_that_was_not_fetched_says_how_to_fetch_it(
    slotwise: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path))
    code, _, err = slotwise("train", "--data", "cifar10", "--quiet", "--out", tmp_path / "run")
    assert code == 2
    assert "slotwise data fetch cifar10" in err


def test_fetching_without_a_network_says_how_to_import(
    slotwise: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path))
    code, out, err = slotwise("data", "fetch", "femnist")
    assert (code, out) == (2, "")
    assert "slotwise data import femnist FOLDER" in err
    assert err.count("\n") == 1


def test_samples_of_devices_are_given_one_by_one(slotwise: Cli, tmp_path: Path) -> None:
    short = "--devices 3 --group-size 1 --deadline 10 --compute-slots 1 --local-steps 1 --quiet"
    arguments = [*short.split(), "--out", tmp_path / "run"]
    assert slotwise("train", *arguments, "--device-samples", "5,2")[0] == 2
    assert not (tmp_path / "run").exists()
    assert slotwise("train", *arguments, "--device-samples", "5,2,9")[0] == 0


def test_training_on_a_folder_of_files(slotwise: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for name in ("device-1", "device-2", "test"):
        np.savez(folder / f"{name}.npz", x=np.zeros((4, 1, 28, 28), np.uint8), y=np.arange(4))
    arguments = ["--group-size", 1, "--deadline", 10, "--compute-slots", 1, "--local-steps", 1, "--quiet"]
    code, _, err = slotwise("train", "--data-folder", folder, *arguments, "--out", tmp_path / "run")
    assert code == 0, err
    np.savez(folder / "device-2.npz", x=np.zeros((4, 1, 28, 29), np.uint8), y=np.arange(4))
    code, _, err = slotwise("train", "--data-folder", folder, *arguments, "--out", tmp_path / "other")
    assert code == 2
    assert "device-2.npz" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "other").exists()
