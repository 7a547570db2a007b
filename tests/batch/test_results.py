import csv
import tempfile
from collections.abc import Callable
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas
import pytest
from matplotlib.figure import Figure

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import write_csv
from slotwise.batch import BatchFolder, BatchResults, BatchSpec
from slotwise.batch.batch_folder import write_spec
from slotwise.batch.figure import batch_figure
from slotwise.batch.results import RunOutcome, mean_statistics
from slotwise.learning import Point
from slotwise.report.colours import SCHEDULE_COLOURS
from slotwise.runs import RunFolder
from slotwise.runs.saved_run import MeasuredPoint
from slotwise.schedule.costs import usage

Read = Callable[[str], BatchSpec]
Fill = Callable[..., BatchResults]
MEASURED = MeasuredPoint(10, 1, 2, nan, 0.5, 0.75)
POWERS = "\n[powers]\ncomputing = 2.0\nsending = 1\nreceiving = 0.5\n"


@pytest.fixture
def fill(read: Read, tmp_path: Path) -> Fill:
    """Makes the folder of a grid whose points have ended, without the training, and reads it."""

    def make(
        text: str,
        *,
        without: tuple[str, ...] = (),
        diverged: tuple[str, ...] = (),
        with_f1: tuple[int, ...] = (),
    ) -> BatchResults:
        spec, folder = read(text), BatchFolder(tmp_path / "out")
        with folder.locked():
            write_spec(folder, spec)
        for number, run in enumerate(spec.runs):
            if run.name in without:
                continue
            own = RunFolder.create(folder.run(run.name).path, run.config)
            timeline = run.config.simulate()
            metrics = {"f1": 0.25 * number} if number in with_f1 else {}
            last = Point(timeline.last_slot, timeline.rounds, 1.0 / (1 + number), 0.5, 1, metrics)
            own.write_points([Point(0, 0, 2.0, 0.1, 0, dict.fromkeys(metrics, 0.0)), last])
            status = "diverged" if run.name in diverged else "finished"
            own.write_description(run.config, status, seconds=1.5)
        return BatchResults.read(folder)

    return make


def rows(columns: dict[str, list[object]]) -> list[dict[str, str]]:
    """Return the rows of a table as its CSV file has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_csv(path, [*columns], zip(*columns.values(), strict=True))
        return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_metrics_of_the_task_are_columns_of_both_tables_and_replace_none(fill: Fill) -> None:
    results = fill("learning-rate = [0.1, 0.2, 0.3]", with_f1=(1, 2))
    assert results.columns()["final_f1"] == [None, 0.25, 0.5]
    assert list(results.columns())[-2:] == ["final_f1", "run"]
    curves = results.curve_columns()
    assert list(curves)[-2:] == ["accuracy", "f1"]
    assert curves["f1"] == [None, None, 0.0, 0.25, 0.0, 0.5]
    row = results.rows[1]
    named = {"joules": 7.0, "learning_rate": 8.0}
    curve = tuple(point._replace(metrics=named) for point in row.outcome.curve)
    clash = row._replace(outcome=row.outcome._replace(curve=curve))
    curves = replace(results, rows=(clash,)).curve_columns()
    assert curves["learning_rate"] == [0.2, 0.2]
    assert curves["joules"] == [None, None]
    assert (curves["task_joules"], curves["task_learning_rate"]) == ([7.0, 7.0], [8.0, 8.0])


def test_a_metric_that_only_some_runs_have_has_no_empty_lines_and_panels(fill: Fill) -> None:
    results = fill("learning-rate = [0.1, 0.2, 0.3]", with_f1=(1,))
    titles = [panel.title for panel in results.curve_figure("f1").panels]
    assert titles == ["Final f1 against learning-rate", "learning-rate=0.2"]
    outcome = RunOutcome("finished", (MEASURED._replace(metrics={"f1": nan}),))
    unknown = replace(results, rows=tuple(row._replace(outcome=outcome) for row in results.rows))
    with pytest.raises(UserError, match="no evaluation has a value of f1"):
        unknown.curve_figure("f1")


def test_a_figure_shows_another_metric_against_an_axis_or_every_cost(fill: Fill) -> None:
    results = fill("learning-rate = [0.1, 0.2]", with_f1=(0, 1))
    figure = batch_figure(results, "f1")
    assert {panel.up for panel in figure.panels} == {"f1"}
    (line,) = figure.panels[0].lines
    assert line.band("value", "f1").mean.tolist() == [0.0, 0.25]
    assert batch_figure(results, "accuracy").panels[0].lines[0].band("value", "accuracy").mean[0] == 50.0
    with pytest.raises(InputError, match="loss, accuracy, f1"):
        batch_figure(results, "auc")
    figure = fill('partition = ["iid", "one-label"]', with_f1=(0, 1)).plot(metric="f1")
    titles = [(axes.get_ylabel(), axes.get_xlabel()) for axes in figure.axes if axes.axison]
    assert titles == [("f1", "time slots"), ("", "training rounds"), ("f1", "updates applied")]


def test_there_is_a_row_for_each_point_with_its_figures(fill: Fill) -> None:
    table = rows(fill("learning-rate = [0.1, 0.2]\nseeds = [0, 1]\nlocal-steps = 3").columns())
    assert [(row["learning_rate"], row["seed"]) for row in table] == [
        ("0.1", "0"),
        ("0.1", "1"),
        ("0.2", "0"),
        ("0.2", "1"),
    ]
    assert [float(row["final_loss"]) for row in table] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    first = table[0]
    assert (first["status"], first["final_accuracy"], first["seconds"]) == ("finished", "0.5", "1.5")
    assert int(first["sgd_steps"]) == 3 * int(first["updates"]) == 6 * int(first["rounds"])
    assert int(first["slots"]) <= 60
    assert first["run"] == "learning-rate=0.1,seed=0"


def test_what_is_missing_or_diverged_has_a_status_and_no_figures(fill: Fill) -> None:
    names = ("learning-rate=0.1,seed=0", "learning-rate=0.2,seed=0")
    table = rows(fill("learning-rate = [0.1, 0.2]", without=names[:1], diverged=names[1:]).columns())
    assert [row["status"] for row in table] == ["missing", "diverged"]
    assert {row["final_loss"] for row in table} == {""}


def test_points_that_share_a_run_have_a_row_each(fill: Fill) -> None:
    table = rows(fill('schedule = ["async", "idfl"]\ngroup-size = 4').columns())
    assert [row["schedule"] for row in table] == ["async", "idfl"]
    assert len({row["run"] for row in table}) == 1
    assert table[0]["final_loss"] == table[1]["final_loss"]


def test_values_that_look_alike_are_not_averaged(fill: Fill, tmp_path: Path) -> None:
    for folder, slots in (("slow", 9), ("fast", 2)):
        (tmp_path / folder).mkdir()
        lines = "".join(f"{device},{slots}\n" for device in range(1, 5))
        (tmp_path / folder / "fleet.csv").write_text("device,compute_slots\n" + lines)
    results = fill('fleet-file = ["slow/fleet.csv", "fast/fleet.csv"]\npartition = ["iid", "one-label"]')
    assert [len(seeds) for seeds in results.by_combination().values()] == [1] * 4
    assert len(batch_figure(results).lines) == 4
    assert [row["fleet_file"] for row in rows(results.columns())[::2]] == [
        "slow/fleet.csv",
        "fast/fleet.csv",
    ]


def test_the_whole_value_is_in_the_table_even_if_the_name_of_its_run_is_short(fill: Fill) -> None:
    table = rows(fill("absences = [[], [[1, 10, 20], [2, 30]]]").columns())
    assert [(row["absences"], row["run"]) for row in table] == [
        ("none", "absences=none,seed=0"),
        ("1x10x20+2x30", "absences=1x10x20x2x30,seed=0"),
    ]


def test_curves_are_long_and_do_not_mix_the_loss_of_uplinks_with_that_of_models(fill: Fill) -> None:
    table = rows(fill("uplink-loss = [0.0, 0.1]").curve_columns())
    assert [(row["uplink_loss"], row["round"] == "0", row["loss"]) for row in table] == [
        ("0.0", True, "2.0"),
        ("0.0", False, "1.0"),
        ("0.1", True, "2.0"),
        ("0.1", False, "0.5"),
    ]


def test_a_numeric_axis_is_drawn_across_and_has_a_panel_for_each_value(fill: Fill) -> None:
    figure = batch_figure(
        fill('partition = ["iid", "one-label"]\nlearning-rate = [0.2, 0.1, 0.3]\nseeds = [0, 1]')
    )
    assert [panel.title for panel in figure.panels] == [
        "Final loss against learning-rate",
        "learning-rate=0.2",
        "learning-rate=0.1",
        "learning-rate=0.3",
    ]
    assert [line.label for line in figure.lines] == ["iid", "one-label"]
    first = figure.panels[0].lines[0]
    assert first.band("value", "loss").places.tolist() == [0.1, 0.2, 0.3]
    assert first.band("value", "loss").low.tolist() == pytest.approx([1 / 4, 1 / 2, 1 / 6])
    assert first.band("value", "loss").high.tolist() == pytest.approx([1 / 3, 1, 1 / 5])
    assert all(len(line.seeds) == 2 for panel in figure.panels for line in panel.lines)


def test_a_value_that_one_seed_has_not_finished_is_left_out_of_the_final_losses(fill: Fill) -> None:
    figure = batch_figure(
        fill("learning-rate = [0.1, 0.2]\nseeds = [0, 1]", without=("learning-rate=0.2,seed=1",))
    )
    assert [line.band("value", "loss").places.tolist() for line in figure.panels[0].lines] == [[0.1]]


@pytest.mark.parametrize("powers", ["", POWERS])
def test_without_a_numeric_axis_curves_are_drawn_against_every_cost(fill: Fill, powers: str) -> None:
    figure = batch_figure(fill('partition = ["iid", "one-label"]' + powers))
    costs = ["slot", "round", "updates"] + ["joules"] * bool(powers)
    assert [panel.across for panel in figure.panels] == costs


def test_cases_are_lines_named_after_them(fill: Fill) -> None:
    text = 'seeds = [0, 1]\n[[case]]\nname = "a"\n[[case]]\nname = "b"\ngroup-size = 1\n'
    results = fill(text)
    assert [(line.label, len(line.seeds)) for line in batch_figure(results).lines] == [("a", 2), ("b", 2)]
    assert results.columns()["case"] == ["a", "a", "b", "b"]
    assert list(results.by_combination()) == [("a",), ("b",)]


def test_idfl_has_its_colour_where_no_delay_is_free(fill: Fill) -> None:
    cases = "".join(f'[[case]]\nname = "{name}"\nschedule = "{name}"\n' for name in ("async", "idfl"))
    for text in (f"group-size = [1, 4]\n{cases}", 'schedule = ["async", "idfl"]\ngroup-size = [1, 4]\n'):
        for line in batch_figure(fill(text)).lines:
            assert line.colour.light == SCHEDULE_COLOURS["idfl" if "idfl" in line.label else "async"].light


def test_joules_and_updates_are_counted_up_to_each_evaluation(fill: Fill, read: Read) -> None:
    text = "uplink-loss = 0.2\ncompute-distribution = 'uniform:2:6'" + POWERS
    results, config = fill(text), read(text).runs[0].config
    timeline, (row,) = config.simulate(), results.rows
    assert row.outcome.statistics is not None
    assert (row.outcome.curve[0].updates, row.outcome.curve[0].joules) == (0, 0.0)
    assert row.outcome.curve[-1].updates == len(timeline)
    assert row.outcome.curve[-1].joules == row.outcome.statistics.joules > 0
    assert (row.outcome.statistics.updates, row.outcome.statistics.lost) == (
        len(timeline),
        len(timeline.lost),
    )
    total = usage(timeline).total
    assert row.outcome.statistics.joules == 2 * total.computing + total.sending + total.receiving / 2


def test_without_powers_there_are_no_joules(fill: Fill) -> None:
    results = fill("learning-rate = [0.1]")
    assert (results.has_joules, results.columns()["joules"]) == (False, [None])
    assert rows(results.columns())[0]["joules"] == ""


def test_means_are_over_the_finished_seeds(fill: Fill) -> None:
    results = fill("seeds = [0, 1, 2]", without=("seed=1",))
    (group,) = results.by_combination().values()
    mean = mean_statistics(group)
    assert mean is not None
    assert mean.final_loss == pytest.approx((1 + 1 / 3) / 2)
    assert mean_statistics(group[1:2]) is None
    assert not results.is_finished


def test_of_too_many_lines_the_lowest_are_drawn(fill: Fill) -> None:
    rates = [f"[{number}]" for number in range(1, 21)]
    figure = batch_figure(fill(f"hidden = [{', '.join(rates)}]"))
    assert figure.panels[0].title == "Loss against slots (the 14 lowest of 20)"
    assert figure.lines[0].label == "hidden=7"


def test_a_notebook_shows_results_as_table_plot_and_html(fill: Fill) -> None:
    name = "learning-rate=0.2,seed=0"
    results = fill('partition = "iid"\nlearning-rate = [0.1, 0.2, 0.3]' + POWERS, without=(name,))
    table = results.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == list(results.columns())
    assert table.set_index("run").loc[name, "status"] == "missing"
    assert table["final_loss"].isna().tolist() == [False, True, False]
    assert (table["joules"].dropna() > 0).all()
    figure = results.plot()
    assert isinstance(figure, Figure)
    titles = [axes.get_title().replace("\n", " ") for axes in figure.axes if axes.axison]
    assert titles == ["Final loss against learning-rate", "learning-rate=0.1", "learning-rate=0.3"]
    html = results._repr_html_()
    assert html.startswith("<table")
    assert name in html


def test_results_without_a_curve_have_a_table_and_no_plot(fill: Fill) -> None:
    results = fill("", without=("seed=0",))
    assert results.to_pandas()["status"].to_list() == ["missing"]
    assert batch_figure(results).panels == ()
    with pytest.raises(UserError, match="nothing to draw"):
        results.plot()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"format": 1}', '{"format": 1, "axes": {}, "powers": null, "points": [3]}']
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "batch.json").write_text(text)
    with pytest.raises(UserError, match=r"batch\.json: damaged"):
        BatchResults.read(BatchFolder(tmp_path))


@pytest.mark.parametrize("name", ["../../elsewhere", "..", ".", ""])
def test_a_manifest_that_names_folders_elsewhere_is_refused(fill: Fill, tmp_path: Path, name: str) -> None:
    fill("")
    path = tmp_path / "out/batch.json"
    path.write_text(path.read_text().replace('"seed=0"', f'"{name}"'))
    with pytest.raises(UserError, match="damaged"):
        BatchResults.read(BatchFolder(tmp_path / "out"))


def test_a_curve_of_another_run_is_refused(fill: Fill, tmp_path: Path) -> None:
    fill("")
    RunFolder(tmp_path / "out/runs/seed=0").write_points([Point(9999, 999, 1.0, 0.5, 1)])
    with pytest.raises(UserError, match="not of the same run"):
        BatchResults.read(BatchFolder(tmp_path / "out"))
