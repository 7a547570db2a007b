"""What a run folder says, whole, half-written or damaged."""

import json
import math
from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.learning import Point, Task
from slotwise.runs import RunConfig, RunFolder, SavedRun, run
from slotwise.runs.saved_run import final_metrics
from slotwise.schedule.costs import Powers


@pytest.fixture
def finished(tmp_path: Path, parameters: RunConfig, toy: Task) -> SavedRun:
    run(parameters, tmp_path / "run", task=toy)
    return SavedRun.read(tmp_path / "run")


def test_a_finished_run_says_what_came_of_it_and_counts_updates_and_joules(
    finished: SavedRun, parameters: RunConfig
) -> None:
    assert (finished.name, finished.status, finished.is_live) == ("run", "finished", False)
    assert finished.config == parameters
    assert finished.rounds == finished.planned.rounds == 40
    assert finished.last == finished.points[-1]
    assert finished.reported["loss"] == finished.points[-1].loss
    assert finished.best == min(finished.points, key=lambda point: point.loss)
    last = sorted(point.loss for point in finished.points if point.slot > 0.9 * 122)
    assert last[0] <= finished.final_loss <= last[-1]
    assert finished.final_metrics == {}
    assert finished.measured is None
    assert not finished.has_collapsed(finished.final_accuracy)
    assert finished.has_collapsed(finished.final_accuracy + 0.01)
    curve = finished.curve()
    assert [point.updates for point in curve] == [2 * point.round for point in finished.points]
    assert all(math.isnan(point.joules) for point in curve)
    powers = Powers(computing=2.0, sending=1.0, receiving=0.5)
    costs = finished.costs(powers)
    assert costs is not None
    assert finished.curve(powers)[-1].joules == pytest.approx(costs.joules)
    assert [point.loss for point in finished.curve(powers)] == [point.loss for point in finished.points]


def test_where_there_is_no_run_nothing_is_found(tmp_path: Path) -> None:
    assert SavedRun.find(tmp_path) is None
    with pytest.raises(UserError, match=r"not a run folder \(no run\.json\)"):
        SavedRun.read(tmp_path)


def test_evaluations_of_another_run_are_refused(finished: SavedRun) -> None:
    RunFolder(finished.path).write_points([finished.points[-1]._replace(round=41)])
    with pytest.raises(UserError, match="not of the same run"):
        SavedRun.read(finished.path).curve()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rounds": 3}', "\udcff"])
def test_a_damaged_timeline_is_named(finished: SavedRun, text: str) -> None:
    description = finished.path / "run.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"live_run": "abc"}))
    finished = SavedRun.read(finished.path)
    (finished.path / "timeline.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=r"timeline\.json: damaged"):
        finished.costs()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("seconds", value) for value in ("long", None, [1], -1, True, float("nan"))],
        *[("rounds", value) for value in ("many", None, 1.5, -1, True)],
        *[("final", value) for value in ("good", [1], {"slot": 1.5}, {"slot": -1}, {"loss": "low"})],
        ("data_sha256", 5),
    ],
)
def test_a_result_of_a_wrong_type_in_run_json_is_damage(folder: RunFolder, name: str, value: object) -> None:
    path = folder.path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(UserError, match=r"run\.json: damaged"):
        folder.read()


def test_a_run_has_no_results_before_it_has_points_nor_after_it_diverged(
    folder: RunFolder, parameters: RunConfig
) -> None:
    assert folder.read().points == ()
    begun = folder.read()
    assert begun.status == "running"
    assert (begun.points, begun.curve(), begun.last, begun.best, begun.costs()) == ((), (), None, None, None)
    assert math.isnan(begun.final_loss)
    assert begun.reported == {}
    folder.write_description(parameters, "diverged", diverged_in_round=3)
    assert folder.read().diverged
    assert folder.read().has_collapsed(0.0)


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n", "slot,round,loss,accuracy,staleness\n1,2\n", "slot,round,loss\n" + 200_000 * "1"],
    ids=["other-columns", "short-row", "huge-field"],
)
def test_a_damaged_history_is_named(text: str, folder: RunFolder) -> None:
    (folder.path / "history.csv").write_text(text)
    with pytest.raises(UserError, match=r"history\.csv: damaged"):
        len(folder.read().points)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[1]",
        "null",
        "7",
        "{}",
        '{"format": 1}',
        '{"format": 1, "status": "running"}',
        '{"format": 1, "status": "sleeping", "parameters": {}}',
        '{"format": 1, "status": "running", "parameters": []}',
        "\udcff",
    ],
)
def test_a_damaged_description_is_named(text: str, folder: RunFolder) -> None:
    path = folder.path / "run.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=f"^{path}: damaged"):
        SavedRun.read(folder.path)


def test_a_foreign_format_is_named(folder: RunFolder) -> None:
    (folder.path / "run.json").write_text('{"format": 2, "status": "running", "parameters": {}}')
    with pytest.raises(UserError, match="format 2; this version reads format 1"):
        SavedRun.read(folder.path)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"devices": "ten"}, "devices = 'ten'"), ({"flux": 1}, "unknown option flux")],
)
def test_parameters_that_are_none_name_the_file(
    options: dict[str, object], complaint: str, folder: RunFolder
) -> None:
    document = {"format": 1, "status": "running", "parameters": options}
    (folder.path / "run.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match=rf"run\.json: {complaint}"):
        SavedRun.read(folder.path)


def test_parameters_of_an_older_version_take_the_defaults(folder: RunFolder) -> None:
    document = json.loads((folder.path / "run.json").read_text())
    del document["parameters"]["update"]
    (folder.path / "run.json").write_text(json.dumps(document))
    assert SavedRun.read(folder.path).config.training.update == "sum"


@pytest.mark.parametrize("text", ["x,y\n", "", None])
def test_a_finished_run_without_a_sound_curve_is_refused(
    folder: RunFolder, parameters: RunConfig, text: str | None
) -> None:
    folder.write_description(parameters, "finished")
    if text is not None:
        (folder.path / "history.csv").write_text(text)
    with pytest.raises(UserError, match=r"history\.csv: (damaged|missing)"):
        len(folder.read().points)


def test_a_final_metric_is_the_median_of_the_values_that_are_known() -> None:
    values = {50: 9.0, 91: 1.0, 95: math.nan, 98: 3.0, 100: 8.0}
    points = [Point(slot, 1, 0.5, 0.5, 0, {"f1": f1, "auc": math.nan}) for slot, f1 in values.items()]
    found = final_metrics(points, 100)
    assert found["f1"] == 3.0
    assert math.isnan(found["auc"])
    assert final_metrics([Point(10, 1, 0.5, 0.5, 0)], 100) == {}
