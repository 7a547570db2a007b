from pathlib import Path

import pytest

from slotwise.errors import InputError, UserError
from slotwise.learning import Point
from slotwise.report.curves.run_curves import curves_figure, draw_curves, read_curves, sparkline
from slotwise.runs import RunConfig, RunFolder

POINTS = [Point(10 * i, 2 * i, loss, 0.5, 3) for i, loss in enumerate((2.3, 1.0, 0.5))]


def run_in(path: Path) -> Path:
    folder = RunFolder.create(path, RunConfig().with_options(group_size=1, deadline=104))
    folder.write_points(POINTS)
    return path


@pytest.mark.parametrize(("name", "first"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.PDF", b"%PDF")])
def test_curves_are_drawn_in_the_kind_of_the_suffix(tmp_path: Path, name: str, first: bytes) -> None:
    draw_curves({"run-a": POINTS, "run-b": POINTS[:2], "empty": ()}, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(first)


def test_run_folders_and_composed_figures_are_drawn_too(tmp_path: Path) -> None:
    run = run_in(tmp_path / "small")
    draw_curves([run], tmp_path / "a.svg")
    draw_curves(curves_figure(read_curves([str(run)])), str(tmp_path / "b.svg"))
    assert "small: idfl S=1" in (tmp_path / "a.svg").read_text()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_runs_of_the_same_name_are_labelled_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    runs = [run_in(tmp_path / "small"), run_in(tmp_path / "elsewhere" / "small")]
    assert list(read_curves(runs)) == [f"{run}: idfl S=1" for run in runs]


def test_another_suffix_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        draw_curves({}, tmp_path / "a.gif")
    assert error.value.parameter == "out"


def test_a_folder_without_a_run_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        draw_curves([tmp_path], tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_a_curve_in_one_line() -> None:
    assert sparkline([1, 2, 3, 8]) == "▁▂▃█"
    assert sparkline([]) == ""
