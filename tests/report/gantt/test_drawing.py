import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.report.gantt.chart import Window
from slotwise.report.gantt.drawing import (
    MOST_SLOTS,
    check_picture_path,
    compose,
    fit,
    picture_window,
    write_gantt,
)
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


@pytest.mark.parametrize(
    ("name", "beginning"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.SVG", b"<?xml")]
)
def test_the_suffix_says_the_kind(six_async: Timeline, tmp_path: Path, name: str, beginning: bytes) -> None:
    write_gantt(six_async, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(beginning)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["a.pdf", "a", "svg", ".svg", "a.html"])
def test_another_suffix_is_refused_with_those_allowed(name: str) -> None:
    with pytest.raises(InputError, match=r"ends in \.svg or \.png"):
        check_picture_path(Path(name))


def test_a_missing_folder_is_refused(six_async: Timeline, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        write_gantt(six_async, tmp_path / "no" / "a.svg")


def test_a_part_of_a_timeline_says_which_slots_it_shows(hundred_alone: Timeline, six_async: Timeline) -> None:
    assert picture_window(hundred_alone) == Window(0, 400)
    assert picture_window(six_async) == Window(0, 20)
    assert len(compose(six_async, Window(0, 20)).head) == 2
    head = compose(hundred_alone, Window(0, 400)).head
    assert head[-1] == "shown: slots 0–399 of 450"
    picture = compose(six_async, Window(0, 2))
    assert len(list(picture.device_bars(5, 9, 4, 9))) == 6
    timeline = simulate(Scenario(devices=1000, group_size=500, compute_slots=5), rounds=1)
    picture = compose(timeline, Window(0, timeline.last_slot))
    assert picture.head[-1] == "shown: devices 1–200 of 1,000"
    assert max(bar.interval.device for bar in picture.device_bars(5, 9, 4, 9)) == 200


def test_more_slots_than_a_picture_holds_are_refused() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), rounds=2000)
    assert picture_window(timeline, Window(0, MOST_SLOTS)) == Window(0, MOST_SLOTS)
    with pytest.raises(InputError, match="slots = 0:2001: must be at most 2,000 slots"):
        picture_window(timeline, Window(0, MOST_SLOTS + 1))


def test_importing_slotwise_and_its_command_line_loads_no_plotting_library() -> None:
    program = "import sys, slotwise, slotwise.cli; print({'matplotlib', 'plotly'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_label_is_shrunk_turned_or_left_out_as_its_block_allows() -> None:
    assert fit(2, 100, 30, 5, 9) == (9, False)
    found = fit(3, 15, 30, 5, 9)
    assert found is not None
    assert not found.upright
    assert 5 <= found.size < 9
    found = fit(3, 8, 30, 5, 9)
    assert found is not None
    assert found.upright
    assert fit(2, 9, 36, 4, 9) == (9, True)
    assert fit(3, 3, 30, 5, 9) is None
