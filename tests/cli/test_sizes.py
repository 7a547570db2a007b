"""Sizes that cannot work are refused at once, with a word, and leave no folder."""

import re
from pathlib import Path

import pytest

# Uplinks of a fixed rate that are hardly ever lost, so that they would be followed to their end.
LONG_UPLINKS = "--radio-link fixed-rate --link-slots 500000000"
TOO_LARGE = [
    ("train --local-steps 1000000000", "local_steps"),
    ("train --samples-per-device 1000000000", "samples_per_device"),
    ("train --channels 10000000", "channels"),
    ("train --hidden 1000000000", "hidden"),
    ("train --devices 100000000 --group-size 1", "devices"),
    ("train --deadline 1000000000", "deadline"),
    ("train --uplink-loss 0.999999 --retransmission at-once", "uplink_loss"),
    ("train --mean-present 1 --mean-away 1 --deadline 1000000000", "mean_present"),
    ("plan --devices 99999999 --group-size 7", "group_size"),
    ("plan --devices 100000000 --usage", "devices"),
    ("plan --devices 100000000 --jitter 0.1", "devices"),
    ("plan --uplink-loss 0.999999", "uplink_loss"),
    ("plan --deadline 1000000000 --usage", "deadline"),
    ("timeline --devices 100000000 --group-size 1", "devices"),
    ("timeline --devices 1000000 --group-size 1 --schedule idfl", "group_size"),
    ("timeline --uplink-loss 0.999999", "uplink_loss"),
    ("timeline --rounds 1000000000", "rounds"),
    ("timeline --rounds 10000000 --selection random", "rounds"),
    ("recommend --devices 100000000", "devices"),
    ("recommend --deadline 1000000000", "deadline"),
    ("recommend --seeds 1000000000", "seeds"),
    ("reproduce --seeds 1000000000", "seeds"),
    ("radio show --devices 1000000", "devices"),
    ("timeline --devices 1000000 --radio-link rate-adaptive", "devices"),
    ("plan --devices 1000000 --group-size 9 --deadline 100 --radio-link rate-adaptive", "devices"),
    (f"timeline --deadline 100 {LONG_UPLINKS}", "deadline"),
    (f"timeline --deadline 100 --selection best-channel {LONG_UPLINKS}", "deadline"),
    (f"timeline --deadline 1000000000 {LONG_UPLINKS}", "deadline"),
    (f"timeline --rounds 2 {LONG_UPLINKS}", "rounds"),
    ("train --processes --workers 10000", "workers"),
    ("fleet --devices 10000 --processes 10000", "processes"),
    ("serve --devices 100000000 --group-size 1", "devices"),
    ("serve --local-steps 1000000000", "local_steps"),
]


@pytest.mark.parametrize(("arguments", "option"), TOO_LARGE)
def test_what_is_too_large_is_refused(slotwise, monkeypatch, tmp_path, arguments, option) -> None:
    monkeypatch.chdir(tmp_path)
    command, *words = arguments.split()
    out = ["--out", "out"] if command in ("train", "recommend", "reproduce", "serve") else []
    code, printed, errors = slotwise(command, *words, *out)
    assert (code, printed) == (2, "")
    assert re.match(rf"slotwise: --{option.replace('_', '-')} \S+: must be ", errors)
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_refuses_more_workers_than_the_machine_has_use_for(slotwise, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text("deadline = 100\n")
    code, _, errors = slotwise("sweep", path, "--out", tmp_path / "out", "--workers", 10_000)
    assert (code, errors.count("\n")) == (2, 1)
    assert "--workers 10000: must be at most " in errors
    assert list(tmp_path.iterdir()) == [path]


def test_a_sweep_refuses_a_size_before_it_makes_a_folder(slotwise, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text("local-steps = [5, 1000000000]\ndeadline = 100\n")
    code, _, errors = slotwise("sweep", path, "--out", tmp_path / "out")
    assert code == 2
    assert "local-steps = 1000000000: must be smaller" in errors
    assert list(tmp_path.iterdir()) == [path]
