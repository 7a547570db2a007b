"""The results browser without a page: batches, live runs, and runs without a point."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.batch.batch_folder import BatchFolder
from slotwise.report.colours import VERMILLION
from slotwise.runs import RunFolder
from slotwise.schedule.costs import Powers
from slotwise.web import results_browser
from slotwise.web.results_browser import (
    DAMAGED,
    RECOMMENDATION_FORMAT,
    RECOMMENDATION_KEYS,
    ResultsBrowser,
    read_row,
)
from slotwise.web.run_lines import line_key

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
    monkeypatch.setattr(results_browser, "read_row", lambda folder: pytest.fail(f"{folder} was read"))
    assert browser.listing() == listing


def test_the_timeline_of_a_live_run_is_the_measured_one(tmp_path: Path, run: Path) -> None:
    measured = RunFolder(run).parameters().simulate().first(3)
    change(run, live_run="abc")
    (run / "timeline.json").write_text(measured.to_json())
    assert ResultsBrowser(tmp_path).timeline("run") == measured


@pytest.mark.parametrize("text", ["", "[1]", '{"rounds": NaN}', None])
def test_a_live_run_without_a_measured_timeline_is_refused(
    tmp_path: Path, run: Path, text: str | None
) -> None:
    empty = RunFolder(run).parameters().simulate().first(0).to_json()  # no round has ended
    change(run, live_run="abc")
    (run / "timeline.json").write_text(empty if text is None else text)
    browser = ResultsBrowser(tmp_path)
    with pytest.raises(UserError):
        browser.timeline("run")
    assert browser.listing()["runs"][0]["status"] == "finished"


def change(run: Path, **changes: object) -> None:
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(document | changes))


def test_a_run_that_cannot_be_read_hides_no_other_curve(tmp_path: Path, run: Path) -> None:
    shutil.copytree(RUN, tmp_path / "odd")
    (tmp_path / "odd/history.csv").write_text("slot\n1\n")
    browser = ResultsBrowser(tmp_path)
    found = browser.curves(["run", "odd"], "slot", "loss", None)
    assert [line["runs"] for line in found["lines"]] == [["run"]]
    (notice,) = found["notices"]
    assert "history.csv" in notice
    with pytest.raises(UserError, match=r"history\.csv"):
        browser.curves(["odd"], "slot", "loss", None)


def test_seeds_with_different_data_are_separate_lines(tmp_path: Path, run: Path) -> None:
    shutil.copytree(RUN, tmp_path / "other")
    browser = ResultsBrowser(tmp_path)
    together = browser.curves(["run", "other"], "slot", "loss", None)
    assert (len(together["lines"]), together["notices"]) == (1, [])
    assert (len(together["lines"][0]["runs"]), together["lines"][0]["seeds"]) == (2, 1)
    change(run, data_sha256="1" * 64)
    change(tmp_path / "other", data_sha256="2" * 64)
    apart = browser.curves(["run", "other"], "slot", "loss", None)
    assert [line["runs"] for line in apart["lines"]] == [["run"], ["other"]]
    assert len({line["label"] for line in apart["lines"]}) == 2
    (notice,) = apart["notices"]
    assert "has changed" in notice
    rows = browser.listing()["runs"]
    assert rows[0]["line"] != rows[1]["line"]


def test_own_metrics_are_drawn(tmp_path: Path, run: Path) -> None:
    shutil.copytree(RUN, tmp_path / "without")
    change(tmp_path / "without", data_sha256="1" * 64)
    points = [point._replace(metrics={"f1": 0.5}) for point in RunFolder(run).points()]
    RunFolder(run).write_points(points)
    browser = ResultsBrowser(tmp_path)
    assert browser.curves(["run", "without"], "slot", "loss", None)["metrics"] == ["accuracy", "f1"]
    (line,) = browser.curves(["without", "run"], "slot", "f1", None)["lines"]
    assert line["runs"] == ["run"]
    assert set(line["mean"]) == {0.5}
    assert line["colours"] == list(VERMILLION)  # as in the plot of the loss
    with pytest.raises(InputError) as refused:
        browser.curves(["without"], "slot", "f1", None)
    assert refused.value.parameter == "up"


def test_the_axis_is_in_seconds_where_runs_say_how_long_a_slot_is(tmp_path: Path, run: Path) -> None:
    browser = ResultsBrowser(tmp_path)
    with pytest.raises(InputError) as refused:
        browser.curves(["run"], "seconds", "loss", None)
    assert refused.value.parameter == "across"
    (slots,) = browser.curves(["run"], "slot", "loss", None)["lines"]
    powers = Powers(computing=1, sending=1, receiving=1, slot_seconds=0.01)
    (seconds,) = browser.curves(["run"], "seconds", "loss", powers)["lines"]
    assert seconds["places"] == pytest.approx([place / 100 for place in slots["places"]])
    assert seconds["mean"] == slots["mean"]


def test_lines_have_the_names_of_their_cases(tmp_path: Path, run: Path) -> None:
    batch, axes = BatchFolder(tmp_path / "sweep"), {"group_size": [50, 25]}
    points = []
    for case, rule, size in (("plain", "mean", 50), ("mine", "own:rule", 50), ("mine", "own:rule", 25)):
        name = f"{case}-{size}"
        shutil.copytree(RUN, batch.run(name).path)
        parameters = RunFolder(run).description()["parameters"]
        change(batch.run(name).path, parameters=parameters | {"aggregation": rule, "group_size": size})
        points.append([case, [size], 0, name])
    batch.write_manifest({"axes": axes, "powers": None, "digest": "", "points": points})
    browser = ResultsBrowser(tmp_path)
    rows = {row["run"]: row["case"] for row in browser.listing()["runs"]}
    names = [f"sweep/runs/{point[3]}" for point in points]
    assert rows == {"run": "", **dict(zip(names, ["plain", "mine", "mine"], strict=True))}
    lines = browser.curves(names, "slot", "loss", None)["lines"]
    assert [line["label"] for line in lines] == ["plain", "mine, S=50", "mine, S=25"]


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
        ResultsBrowser(tmp_path / "root").timeline(name)
    assert raised.value.parameter == "run"


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
