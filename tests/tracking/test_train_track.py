"""`slotwise train --track`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_runs import read_stored
from tracked_toy import OPTIONS

from slotwise.runs import RunFolder
from slotwise.tracking import TRACKERS

Slotwise = Callable[..., Any]
RUN = ["train", "--task", "tracked_toy:make_task", *OPTIONS, "--quiet"]


@pytest.mark.slow
def test_several_trackers_at_once(
    slotwise: Slotwise, tmp_path: Path, project: str, mlflow_store: Path
) -> None:
    code, out, _ = slotwise(
        *RUN, "--out", tmp_path / "run", "--track", ",".join(TRACKERS), "--track-project", project
    )
    assert code == 0
    assert out.startswith("finished after")  # nothing of a library is on stdout
    slots = [point.slot for point in RunFolder(tmp_path / "run").points()]
    for library in TRACKERS:
        (stored,) = read_stored(library, tmp_path, project)
        assert stored.steps == slots


@pytest.mark.parametrize("library", TRACKERS)
def test_a_missing_library_is_refused_before_anything_is_written(
    slotwise: Slotwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    code, out, err = slotwise(*RUN, "--out", tmp_path / "run", "--track", library)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"slotwise[{library}]" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--track", "clearml"],
        ["--track", "wandb,wandb"],
        ["--track", ""],
        ["--track-project", "p"],
        ["--track", "tensorboard", "--track-project", "p"],
        ["--tensorboard", "folder"],
    ],
    ids=" ".join,
)
def test_what_has_no_meaning_is_refused(slotwise: Slotwise, tmp_path: Path, options: list[str]) -> None:
    code, out, err = slotwise(*RUN, "--out", tmp_path / "run", *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert options[-2] in err
    assert not (tmp_path / "run").exists()
