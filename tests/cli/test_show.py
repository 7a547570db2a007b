import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.learning import Point
from slotwise.report.gantt.overlay_chart import channel_uses
from slotwise.runs import RunConfig, RunFolder
from slotwise.schedule import Timeline

Cli = Callable[..., tuple[int, str, str]]

POINTS = [Point(0, 0, 2.3, 0.1, 0), Point(52, 1, 1.5, 0.5, 0), Point(104, 2, 1.75, 0.45, 1)]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A finished run, without the training."""
    parameters = RunConfig().with_options(group_size=1, deadline=104)
    folder = RunFolder.create(tmp_path / "small", parameters)
    folder.write_points(POINTS)
    folder.write_description(parameters, "finished")
    return folder.path


def test_a_run_is_a_row_with_its_last_figures_in_json_with_the_best(slotwise: Cli, finished: Path) -> None:
    code, out, err = slotwise("show", finished)
    assert (code, err) == (0, "")
    row = next(line for line in out.splitlines() if "small" in line)
    assert row.split() == ["small", "finished", "idfl", "1", "2", "104", "1.7500", "45.0%", "█▁▃"]
    _, out, _ = slotwise("show", finished, "--json")
    (run,) = json.loads(out)
    assert run["final"] == POINTS[-1]._asdict()
    assert run["best"] == POINTS[1]._asdict()
    code, _, err = slotwise("show", finished.parent)
    assert code == 2
    assert f"not a run or a batch, but a folder of them: name one, such as {finished}" in err
    assert slotwise("show", finished, "--style", "ieee")[2].startswith("slotwise: --style needs --out FILE")


def test_a_huge_loss_leaves_room_for_the_other_columns(slotwise: Cli, finished: Path) -> None:
    RunFolder.open(finished).write_points([*POINTS[:2], Point(104, 2, 3.1118927e31, 0.45, 1)])
    _, out, _ = slotwise("show", finished)
    row = next(line for line in out.splitlines() if "small" in line)
    assert row.split()[:8] == ["small", "finished", "idfl", "1", "2", "104", "3.1e31", "45.0%"]


@pytest.mark.parametrize(("kind", "first"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_curves_are_drawn_in_the_kind_the_suffix_says(
    slotwise: Cli, finished: Path, tmp_path: Path, kind: str, first: bytes
) -> None:
    out = tmp_path / f"curves.{kind}"
    assert slotwise("show", finished, "--out", out)[0] == 0
    assert out.read_bytes().startswith(first)


def test_a_metric_of_the_task_is_drawn_and_another_one_is_refused(
    slotwise: Cli, finished: Path, tmp_path: Path
) -> None:
    RunFolder.open(finished).write_points([point._replace(metrics={"f1": 0.5}) for point in POINTS])
    out = tmp_path / "curves.svg"
    assert slotwise("show", finished, "--metric", "f1", "--out", out)[0] == 0
    assert ">f1<" in out.read_text(encoding="utf-8")
    code, text, err = slotwise("show", finished, "--metric", "auc", "--out", tmp_path / "other.svg")
    assert (code, text) == (2, "")
    assert err == "slotwise: --metric auc: must be a metric of the results: accuracy, f1\n"
    assert not (tmp_path / "other.svg").exists()
    assert slotwise("show", finished, "--metric", "f1")[0] == 2  # nothing would be drawn
    RunFolder.open(finished).write_points([point._replace(metrics={"f1": float("nan")}) for point in POINTS])
    for metric in ("f1", ""):
        assert slotwise("show", finished, "--metric", metric, "--out", tmp_path / "nan.svg")[0] == 2
    assert not (tmp_path / "nan.svg").exists()


def test_a_run_without_points_is_shown_too(slotwise: Cli, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "fresh", RunConfig())
    code, out, _ = slotwise("show", folder.path)
    assert code == 0
    assert "running" in out


def test_runs_of_the_same_name_in_different_folders_are_told_apart(
    slotwise: Cli, tmp_path: Path, finished: Path
) -> None:
    other = tmp_path / "elsewhere" / "small"
    other.parent.mkdir()
    finished.rename(other)
    again = RunFolder.create(finished, RunConfig().with_options(group_size=1, deadline=104))
    again.write_points(POINTS)
    out = tmp_path / "curves.svg"
    assert slotwise("show", other, again.path, "--out", out)[0] == 0
    # Labels of this length are broken into several lines.
    drawn = re.sub(r"\s|<[^>]*>", "", out.read_text())
    assert f"{other}:idflS=1" in drawn
    assert f"{again.path}:idflS=1" in drawn


def test_one_panel_in_a_style_with_bands_and_labels(slotwise: Cli, finished: Path, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path / "b", RunConfig().with_options(group_size=1, deadline=104, seed=1))
    other.write_points(POINTS)
    out = tmp_path / "loss.svg"
    chosen = ("--style", "ieee", "--panel", "loss", "--x", "seconds", "--slot-seconds", "0.5")
    chosen += ("--band", "95%", "--labels", "proposed", "--out", out)
    assert slotwise("show", finished, other.path, *chosen)[0] == 0
    drawn = out.read_text()
    assert 'width="252pt"' in drawn  # 3.5 inches
    assert ">proposed<" in drawn
    assert ">time (s)<" in drawn
    assert ">training loss<" in drawn
    assert "accuracy" not in drawn


@pytest.mark.parametrize(
    ("flags", "blamed"),
    [
        (("--panel", "auc"), "--panel auc: must be a metric of the results: loss, accuracy"),
        (("--panel", "loss", "--metric", "loss"), "--metric cannot be combined with --panel"),
        (("--band", "std"), "--band std: must be omitted if no curve has several seeds"),
        (("--x", "seconds"), "--slot-seconds is missing"),
        (("--x", "joules"), "--power-computing is missing; it must be given in watts for joules"),
        (("--style", "nature"), "--style nature: must be ieee, or a matplotlib style or file"),
        (("--labels", "a,b"), "--labels a, b: must be 1 text, one for each of small: idfl S=1"),
        (("--width", "0"), "--width 0"),
    ],
)
def test_what_a_figure_cannot_show_is_refused(
    slotwise: Cli, finished: Path, tmp_path: Path, flags: tuple[str, ...], blamed: str
) -> None:
    code, out, err = slotwise("show", finished, *flags, "--out", tmp_path / "a.svg")
    assert (code, out) == (2, "")
    assert err.startswith(f"slotwise: {blamed}")
    assert not (tmp_path / "a.svg").exists()


def test_a_table_of_runs_has_a_row_for_those_that_differ_in_seeds(
    slotwise: Cli, finished: Path, tmp_path: Path
) -> None:
    runs = [finished]
    for seed in (1, 2):
        config = RunConfig().with_options(group_size=1, deadline=104, seed=seed)
        folder = RunFolder.create(tmp_path / f"seed-{seed}", config)
        folder.write_points([point._replace(loss=point.loss + seed) for point in POINTS])
        folder.write_description(config, "finished", seconds=1.0)
        runs.append(folder.path)
    code, tex, _ = slotwise("show", *runs, "--tex")
    assert code == 0
    assert r"\toprule" in tex
    assert tex.count("idfl S=1 &") == 1
    file = tmp_path / "table.csv"
    code, out, err = slotwise("show", *runs, "--table", file, "--target", "loss=1.8", "--slot-seconds", "2")
    assert code == 0
    assert "status" in out  # the usual table is printed as well
    assert err == f"wrote {file}\n"
    (row,) = csv.DictReader(file.read_text().splitlines())
    assert (row["run"], row["seeds"], row["reached"]) == ("idfl S=1", "3", "1")
    assert float(row["seconds_to_target"]) == 2 * float(row["slots_to_target"])


@pytest.mark.parametrize(
    ("flags", "blamed"),
    [
        (("--table", "a.doc"), "--table a.doc: must be text, csv, markdown, tex or a file"),
        (("--tex", "--table", "csv"), "--tex cannot be combined with --table"),
        (("--tex", "--json"), "--json cannot be combined with --tex"),
        (("--target", "loss=1"), "--target needs --table or --tex"),
        (("--tex", "--best", "group-size"), "--best group-size: must be omitted"),
        (("--tex", "--columns", "final_auc"), "--columns final_auc: must be statistics: final_loss"),
        (("--tex", "--style", "ieee"), "--style needs --out FILE"),
    ],
)
def test_what_a_table_cannot_show_is_refused(
    slotwise: Cli, finished: Path, flags: tuple[str, ...], blamed: str
) -> None:
    code, out, err = slotwise("show", finished, *flags)
    assert (code, out) == (2, "")
    assert err.startswith(f"slotwise: {blamed}")


def test_what_devices_spent_in_a_live_run_is_told_only_if_it_kept_to_the_plan(
    slotwise: Cli, finished: Path
) -> None:
    plan = RunFolder.open(finished).parameters().simulate()
    document = json.loads((finished / "run.json").read_text())
    (finished / "run.json").write_text(json.dumps(document | {"live_run": "abc"}))
    (finished / "timeline.json").write_text(plan.to_json())
    assert "computing" in slotwise("show", finished)[1]
    (finished / "timeline.json").write_text(plan.first(1).to_json())
    code, shown, _ = slotwise("show", finished)
    assert code == 0
    assert "computing" not in shown
    for content in (b"\xff", b"{}"):
        (finished / "timeline.json").write_bytes(content)
        code, _, error = slotwise("show", finished)
        assert code == 2
        assert "timeline.json: damaged" in error


def test_runs_whose_data_have_changed_between_them_are_named(
    slotwise: Cli, finished: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(finished, tmp_path / "other"))
    assert slotwise("show", finished, other)[2] == ""
    for number, path in enumerate((finished, other)):
        document = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps(document | {"data_sha256": f"{number}" * 64}))
    code, _, err = slotwise("show", finished, other)
    assert code == 0
    assert "has changed" in err
    assert f"{finished} (" in err
    assert f"{other} (" in err


@pytest.fixture
def live(tmp_path: Path) -> tuple[Path, Timeline]:
    """A live run that has lost an uplink, without the training; and what was measured."""
    config = RunConfig().with_options(devices=4, group_size=1, compute_slots=2, deadline=40)
    folder = RunFolder.create(tmp_path / "live", config)
    folder.write_points(POINTS[:1])
    folder.write_description(config, "finished", live_run="abc")
    lossy = config.with_options(uplink_loss=0.3).simulate()
    (folder.path / "timeline.json").write_text(lossy.to_json())
    return folder.path, lossy


def test_plan_and_measurement_of_a_live_run_are_drawn(
    slotwise: Cli, live: tuple[Path, Timeline], tmp_path: Path
) -> None:
    path, measured = live
    picture = tmp_path / "slots.svg"
    code, _, err = slotwise("show", path, "--gantt", picture, "--slots", "0:20")
    assert (code, err) == (0, f"wrote {picture}\n")
    text = picture.read_text()
    arrived, lost = text.count("#4c9f70"), text.count("#c0392b")
    assert min(arrived, lost) > 0
    uses = channel_uses(measured)
    assert [use.outcome for use in uses].count("lost") == len(measured.lost) > 0
    assert {use.outcome for use in uses} == {"arrived", "lost"}


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--slots", "0:20"], "--slots 0:20: must be omitted without --gantt"),
        (["--gantt", "x.txt"], "--gantt x.txt: must be a file name that ends in .svg or .png"),
        (["--gantt", "x.png", "--slots", "9:3"], "--slots 9:3: must be A:B with A below B"),
    ],
)
def test_what_cannot_be_drawn_of_a_live_run_is_refused(
    slotwise: Cli, live: tuple[Path, Timeline], flags: list[str], line: str
) -> None:
    code, _, err = slotwise("show", live[0], *flags)
    assert code == 2
    assert line in err


def test_slots_of_a_simulated_run_are_not_drawn(slotwise: Cli, finished: Path, tmp_path: Path) -> None:
    code, _, err = slotwise("show", finished, "--gantt", tmp_path / "x.png")
    assert code == 2
    assert "must be used with one live run that has completed a round" in err
