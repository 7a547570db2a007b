import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch.figure import sweep_figure
from slotwise.batch.folder import SweepFolder
from slotwise.batch.grid import Sweep
from slotwise.batch.table import SweepResults, curves_csv, points_csv, read_results
from slotwise.learning import Point
from slotwise.runs import RunFolder

Read = Callable[[str], Sweep]
Fill = Callable[..., SweepResults]


@pytest.fixture
def fill(read: Read, tmp_path: Path) -> Fill:
    """Makes the folder of a grid whose points have ended, without the training, and reads it."""

    def make(text: str, *, without: tuple[str, ...] = (), diverged: tuple[str, ...] = ()) -> SweepResults:
        sweep, folder = read(text), SweepFolder(tmp_path / "out")
        with folder.locked():
            folder.begin(sweep)
        for number, run in enumerate(sweep.runs):
            if run.name in without:
                continue
            own = RunFolder.create(folder.run(run.name).path, run.parameters)
            own.write_points([Point(0, 0, 2.0, 0.1, 0), Point(59, 10, 1.0 / (1 + number), 0.5, 1)])
            status = "diverged" if run.name in diverged else "finished"
            own.write_description(run.parameters, status, seconds=1.5)
        return read_results(folder)

    return make


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_there_is_a_row_for_each_point_with_its_figures(fill: Fill) -> None:
    table = rows(points_csv(fill("learning-rate = [0.1, 0.2]\nseeds = [0, 1]\nlocal-steps = 3")))
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
    table = rows(points_csv(fill("learning-rate = [0.1, 0.2]", without=names[:1], diverged=names[1:])))
    assert [row["status"] for row in table] == ["missing", "diverged"]
    assert {row["final_loss"] for row in table} == {""}


def test_points_that_share_a_run_have_a_row_each(fill: Fill) -> None:
    table = rows(points_csv(fill('schedule = ["async", "idfl"]\ngroup-size = 4')))
    assert [row["schedule"] for row in table] == ["async", "idfl"]
    assert len({row["run"] for row in table}) == 1
    assert table[0]["final_loss"] == table[1]["final_loss"]


def test_values_that_look_alike_are_not_averaged(fill: Fill, tmp_path: Path) -> None:
    for folder, slots in (("slow", 9), ("fast", 2)):
        (tmp_path / folder).mkdir()
        lines = "".join(f"{device},{slots}\n" for device in range(1, 5))
        (tmp_path / folder / "fleet.csv").write_text("device,compute_slots\n" + lines)
    results = fill('fleet-file = ["slow/fleet.csv", "fast/fleet.csv"]\npartition = ["iid", "one-label"]')
    assert [len(seeds) for seeds in results.combinations.values()] == [1] * 4
    assert len(sweep_figure(results).lines) == 4
    assert [row["fleet_file"] for row in rows(points_csv(results))[::2]] == [
        "slow/fleet.csv",
        "fast/fleet.csv",
    ]


def test_the_whole_value_is_in_the_table_even_if_the_name_of_its_run_is_short(fill: Fill) -> None:
    table = rows(points_csv(fill("absences = [[], [[1, 10, 20], [2, 30]]]")))
    assert [(row["absences"], row["run"]) for row in table] == [
        ("none", "absences=none,seed=0"),
        ("1x10x20+2x30", "absences=1x10x20x2x30,seed=0"),
    ]


def test_curves_are_long_and_do_not_mix_the_loss_of_uplinks_with_that_of_models(fill: Fill) -> None:
    table = rows(curves_csv(fill("loss = [0.0, 0.1]")))
    assert [(row["loss"], row["slot"], row["global_loss"]) for row in table] == [
        ("0.0", "0", "2.0"),
        ("0.0", "59", "1.0"),
        ("0.1", "0", "2.0"),
        ("0.1", "59", "0.5"),
    ]


def test_a_numeric_axis_is_drawn_across_and_has_a_panel_for_each_value(fill: Fill) -> None:
    figure = sweep_figure(
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
    figure = sweep_figure(
        fill("learning-rate = [0.1, 0.2]\nseeds = [0, 1]", without=("learning-rate=0.2,seed=1",))
    )
    assert [line.band("value", "loss").places.tolist() for line in figure.panels[0].lines] == [[0.1]]


def test_without_a_numeric_axis_there_is_one_panel(fill: Fill) -> None:
    figure = sweep_figure(fill('partition = ["iid", "one-label"]'))
    assert [panel.title for panel in figure.panels] == ["Loss against slots"]


def test_of_too_many_lines_the_lowest_are_drawn(fill: Fill) -> None:
    rates = [f"[{number}]" for number in range(1, 21)]
    figure = sweep_figure(fill(f"hidden = [{', '.join(rates)}]"))
    assert figure.panels[0].title == "Loss against slots (the 14 lowest of 20)"
    assert figure.lines[0].label == "hidden=7"


def test_nothing_is_drawn_of_nothing(fill: Fill) -> None:
    assert sweep_figure(fill("learning-rate = [0.1]", without=("learning-rate=0.1,seed=0",))).panels == ()
