"""`slotwise data show`: the partition of a run, in the terminal and as a file."""

import json
from pathlib import Path

import pytest

from slotwise.cli.app import run
from slotwise.runs import RunConfig
from slotwise.runs.device_data import device_samples


def test_the_samples_are_those_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "show", "--devices", "5", "--partition", "dirichlet", "--seed", "3", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    options = {"devices": 5, "group_size": 1, "partition": "dirichlet", "seed": 3}
    counts = device_samples(RunConfig.from_options(options)).label_counts()
    assert shown == {name: column.tolist() for name, column in counts.columns().items()}


def test_it_prints_a_table_and_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "shards.png"
    assert run(["data", "show", "--devices", "4", "--partition", "shards", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("MNIST, shards (shards per device 2), 4 devices\n60,000 of 60,000 samples")
    assert out.read_bytes().startswith(b"\x89PNG")
