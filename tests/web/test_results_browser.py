"""The results browser without a page: batches, live runs, and runs without a point."""

import json
import shutil
from pathlib import Path

import pytest

from slotwise.errors import InputError
from slotwise.runs import RunFolder
from slotwise.web import results_browser
from slotwise.web.results_browser import RECOMMENDATION_FORMAT, RECOMMENDATION_KEYS, ResultsBrowser

PUBLISHED = Path(__file__).parents[2] / "docs/results"
RUN = PUBLISHED / "paper/runs/mnist-async-S50-T50000-seed1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


def test_batches_and_recommendations_are_listed(tmp_path: Path, run: Path) -> None:
    shutil.move(run, tmp_path / "sweep/runs/one")
    (tmp_path / "sweep/batch.json").write_text("{}")
    (tmp_path / "answer").mkdir()
    document = {"format": RECOMMENDATION_FORMAT, **dict.fromkeys(RECOMMENDATION_KEYS, "it")}
    (tmp_path / "answer/recommendation.json").write_text(json.dumps(document))
    listing = ResultsBrowser(tmp_path).listing()
    assert [row["run"] for row in listing["runs"]] == ["sweep/runs/one"]
    assert listing["batches"] == ["sweep"]
    assert [found["folder"] for found in listing["recommendations"]] == ["answer"]
    assert listing["problems"] == []


def test_a_run_that_has_not_changed_is_read_once(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = ResultsBrowser(tmp_path)
    listing = browser.listing()
    monkeypatch.setattr(results_browser, "_read_row", lambda folder: pytest.fail(f"{folder} was read"))
    assert browser.listing() == listing


def test_what_is_known_of_runs_is_bounded(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_browser, "MOST_RUNS", 1)
    browser = ResultsBrowser(tmp_path)
    for number in range(5):
        shutil.move(next(tmp_path.iterdir()), tmp_path / f"moved{number}")
        assert len(browser.listing()["runs"]) == 1
        assert len(browser._known) <= 3


def test_the_timeline_of_a_live_run_is_the_measured_one(tmp_path: Path, run: Path) -> None:
    measured = RunFolder(run).parameters().simulate().first(3)
    (run / "timeline.json").write_text(measured.to_json())
    assert ResultsBrowser(tmp_path).timeline("run") == measured


def test_a_run_without_a_point_has_no_curve(tmp_path: Path, run: Path) -> None:
    history = run / "history.csv"
    history.write_text(history.read_text().splitlines(keepends=True)[0])
    shutil.copytree(RUN, tmp_path / "other")
    lines = ResultsBrowser(tmp_path).curves(["run", "other"], "slot", "loss", None)["lines"]
    assert [line["runs"] for line in lines] == [["other"]]


@pytest.mark.parametrize("name", ["..", "/etc", "\0", "run/../../other"])
def test_only_folders_below_the_root_are_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(InputError) as raised:
        ResultsBrowser(tmp_path / "root").folder(name)
    assert raised.value.parameter == "run"
