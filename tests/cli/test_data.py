from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]


def test_importing_what_is_not_there_is_one_line(slotwise: Cli, tmp_path: Path) -> None:
    code, out, err = slotwise("data", "import", "cifar10", tmp_path / "nothing")
    assert (code, out) == (2, "")
    assert err.startswith(f"slotwise: {tmp_path / 'nothing'} is neither a file nor a folder")
    assert err.count("\n") == 1


def test_an_unknown_data_set_names_what_there_is(slotwise: Cli) -> None:
    code, out, err = slotwise("data", "fetch", "imagenet")
    assert (code, out) == (2, "")
    assert "cifar10" in err
    assert err.count("\n") == 1


def test_training_on_data_that_was_not_fetched_says_how_to_fetch_it(
    slotwise: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path))
    code, _, err = slotwise("train", "--data", "cifar10", "--quiet", "--out", tmp_path / "run")
    assert code == 2
    assert "slotwise data fetch cifar10" in err
