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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--partition shards --shards-per-device 100000", "--shards-per-device 100000: must be at most 600"),
        ("--partition pathological --labels-per-device 11", "--labels-per-device 11: must be from 1 to 10"),
        (
            "--partition shards --concentration 2",
            "--concentration 2.0: must be omitted with partition shards",
        ),
        ("--out picture.txt", "--out picture.txt: must be a file that ends in .png, .svg or .pdf"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "show", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"slotwise: {message}")
    assert error.count("\n") == 1
