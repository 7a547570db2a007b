"""Files that cannot be read or written: one line that names the file, exit code 2, nothing left behind."""

import sys
from pathlib import Path

import pytest

from slotwise.runs import RunConfig, SavedRun, run

TOO_LONG = "n" * 300
SMALL = ("--devices", 5, "--group-size", 2, "--compute-slots", 3, "--deadline", 100)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "finished"
    run(RunConfig.from_options({"devices": 4, "group_size": 2, "compute_slots": 2, "deadline": 20}), folder)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("timeline", *SMALL, "--out", f"{TOO_LONG}.png"),
        ("bound", "--out", f"{TOO_LONG}.png"),
        ("show", "RUN", "--usage-csv", f"{TOO_LONG}.csv"),
        ("show", "RUN", "--out", f"{TOO_LONG}.png"),
        ("calibrate", "RUN", "--out", f"{TOO_LONG}.csv"),
        ("train", *SMALL, "--data-folder", TOO_LONG, "--out", "new"),
        ("train", *SMALL, "--out", TOO_LONG),
        ("data", "import", "cifar10", TOO_LONG),
        ("plan", *SMALL, "--fleet-file", TOO_LONG),
        ("sweep", TOO_LONG, "--out", "new"),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-2]}",
)
def test_a_name_that_no_file_can_have_is_refused(slotwise, finished, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, out, err = slotwise(*(finished if argument == "RUN" else argument for argument in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_files_are_not_readable_is_refused(slotwise, finished, monkeypatch):
    # Root may read every file, so a call that fails stands for reading; a line of a test would be user code.
    reading = compile("lambda _: missing.stat()", "<frozen reading>", "eval")
    monkeypatch.setattr(SavedRun, "points", property(eval(reading, {"missing": finished / "not there"})))
    code, out, err = slotwise("show", finished)
    assert (code, out) == (2, "")
    assert err == f"slotwise: {finished / 'not there'}: No such file or directory\n"


def test_a_file_that_user_code_cannot_read_is_an_error_of_that_code(slotwise, tmp_path, monkeypatch):
    code = "def make(seed):\n    return open('not there')\n"
    (tmp_path / "own_schedule_of_files.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    exit_code, _, err = slotwise("timeline", *SMALL, "--schedule", "own_schedule_of_files:make")
    assert "own_schedule_of_files.py" in err
    assert "not there" in err
    assert exit_code in (1, 2)
