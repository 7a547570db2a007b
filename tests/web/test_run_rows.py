"""Rows of the table of runs: one damaged run is listed as damaged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from slotwise.web.results_browser import ResultsBrowser
from slotwise.web.run_rows import DAMAGED, line_key, read_row

RUN = Path(__file__).parents[2] / "docs/results/paper/runs/mnist-async-S50-T50000-seed1"
NAN = float("nan")


def changed_run(folder: Path, **changes: Any) -> Path:
    """Copy a run and change its run.json."""
    shutil.copytree(RUN, folder)
    document = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(document | changes))
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {"final": [1]},
        {"final": "text"},
        {"final": {"slot": NAN, "loss": 1.0, "accuracy": 0.5}},
        {"final": {"slot": {}, "loss": 1.0, "accuracy": 0.5}},
        {"rounds": NAN},
        {"rounds": [3]},
        {"status": ["finished"]},
        {"parameters": [1]},
        {"data_sha256": 7},
    ],
    ids=str,
)
def test_an_odd_run_is_damaged_and_hides_no_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    changed_run(tmp_path / "odd", **changes)
    changed_run(tmp_path / "whole")
    listing = ResultsBrowser(tmp_path).listing()
    json.dumps(listing, allow_nan=False)
    assert {row["run"]: row["status"] for row in listing["runs"]} == {"odd": "damaged", "whole": "finished"}
    assert len(listing["problems"]) == 1


def test_figures_of_a_diverged_run_are_missing(tmp_path: Path) -> None:
    row = read_row(changed_run(tmp_path / "run", final={"slot": 10, "loss": NAN, "accuracy": 0.1}))
    assert row is not DAMAGED
    assert (row["slot"], row["loss"], row["accuracy"]) == (10, None, 0.1)


def test_seeds_of_the_same_data_are_one_line() -> None:
    options = {"devices": 4, "seed": 0, "data_seed": None}
    key = line_key(options, "1")
    assert line_key(options | {"seed": 1, "data_seed": 2}, "1") == key
    assert line_key(options, "2") != key
    assert line_key(options | {"devices": 5}, "1") != key
