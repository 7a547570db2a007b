import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.errors import InputError, UserError
from slotwise.report.gantt import MOST_SLOTS, check_picture_path, picture_window, write_gantt
from slotwise.report.window import Window
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


@pytest.mark.parametrize(
    ("name", "beginning"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.html", b"<!doctype html>")]
)
def test_the_suffix_says_the_kind(six_async: Timeline, tmp_path: Path, name: str, beginning: bytes) -> None:
    write_gantt(six_async, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(beginning)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_suffix_in_capitals_is_understood(six_async: Timeline, tmp_path: Path) -> None:
    write_gantt(six_async, tmp_path / "A.SVG")
    assert (tmp_path / "A.SVG").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("name", ["a.pdf", "a", "svg", ".svg"])
def test_another_suffix_is_refused_with_those_allowed(name: str) -> None:
    with pytest.raises(InputError, match=r"ends in \.svg, \.png or \.html"):
        check_picture_path(Path(name))


def test_a_missing_folder_is_refused(six_async: Timeline, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        write_gantt(six_async, tmp_path / "no" / "a.svg")


def test_a_long_timeline_is_cut_to_its_first_slots(hundred_alone: Timeline) -> None:
    assert picture_window(hundred_alone) == Window(0, 400)


def test_a_short_timeline_is_shown_whole(six_async: Timeline) -> None:
    assert picture_window(six_async) == Window(0, 20)


def test_more_slots_than_a_picture_holds_are_refused() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), rounds=2000)
    assert picture_window(timeline, Window(0, MOST_SLOTS)) == Window(0, MOST_SLOTS)
    with pytest.raises(InputError, match="slots = 0:2001: must be at most 2,000 slots"):
        picture_window(timeline, Window(0, MOST_SLOTS + 1))


def test_importing_slotwise_and_its_command_line_loads_no_plotting_library() -> None:
    program = "import sys, slotwise, slotwise.cli; print({'matplotlib', 'plotly'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
