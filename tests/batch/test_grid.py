import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.batch import grid
from slotwise.batch.axes import Axis, combination_name, folder_names
from slotwise.batch.grid import Sweep, read_sweep
from slotwise.errors import UserError

Read = Callable[[str], Sweep]


def test_every_combination_is_a_point_once_with_each_seed(read: Read) -> None:
    sweep = read('schedule = ["sync", "async"]\nlearning-rate = [0.1, 0.2, 0.3]\nseeds = [3, 5]')
    assert [axis.name for axis in sweep.axes] == ["schedule", "learning_rate"]
    assert [point.run.name for point in sweep.points[:3]] == [
        "schedule=sync,learning-rate=0.1,seed=3",
        "schedule=sync,learning-rate=0.1,seed=5",
        "schedule=sync,learning-rate=0.2,seed=3",
    ]
    assert len({point.run.parameters for point in sweep.points}) == len(sweep.points) == 12
    last = sweep.points[-1].run.parameters
    assert (last.schedule, last.learning_rate, last.seed, last.devices) == ("async", 0.3, 5, 4)


def test_without_axes_there_is_a_point_for_each_seed(read: Read) -> None:
    assert [point.run.name for point in read("seeds = [0, 1]").points] == ["seed=0", "seed=1"]
    assert [point.seed for point in read("").points] == [0]


def test_a_list_of_lists_is_an_axis_where_a_list_is_a_value(read: Read) -> None:
    assert read("channels = [2, 3]\nhidden = [4]").axes == ()
    sweep = read("channels = [[2, 3], [4]]\nhidden = [[], [5]]")
    assert [point.run.parameters.model.channels for point in sweep.points] == [(2, 3), (2, 3), (4,), (4,)]
    assert [point.run.name for point in sweep.points[:2]] == [
        "channels=2x3,hidden=none,seed=0",
        "channels=2x3,hidden=5,seed=0",
    ]


def test_absences_are_an_axis_one_list_deeper(read: Read) -> None:
    assert read("absences = [[1, 10, 20]]").axes == ()
    sweep = read("absences = [[], [[1, 10, 20], [2, 30]]]")
    assert [point.run.parameters.fleet.absences for point in sweep.points] == [
        (),
        ((1, 10, 20), (2, 30, None)),
    ]


def test_points_that_are_the_same_training_share_a_run(read: Read) -> None:
    # With S = N nothing is ever stale: no delay is free, and intentional delay is the asynchronous schedule.
    sweep = read('schedule = ["async", "idfl"]\ngroup-size = [1, 4]\ncompute-slots = 1')
    names = [point.run.name for point in sweep.points]
    assert names == [
        "schedule=async,group-size=1,seed=0",
        "schedule=async,group-size=4,seed=0",
        "schedule=idfl,group-size=1,seed=0",
        "schedule=async,group-size=4,seed=0",
    ]
    assert len(sweep.runs) == 3


def test_a_delay_that_is_said_or_found_is_the_same_training(read: Read) -> None:
    sweep = read('schedule = "idfl"\ngroup-size = 1\ncompute-slots = 1\ndelay = [0, 2, "auto"]')
    assert sweep.points[1].run is sweep.points[2].run
    assert sweep.points[0].run.parameters.policy.schedule == "async"


def test_unequal_devices_keep_their_own_schedule(read: Read) -> None:
    sweep = read('schedule = ["async", "idfl"]\ngroup-size = 4\ndevice-compute-slots = [1, 2, 3, 9]')
    assert len(sweep.runs) == 2


def test_values_that_a_folder_cannot_be_named_after_are_told_apart(read: Read) -> None:
    sweep = read('compute-distribution = ["uniform:2:6", "constant:4"]')
    assert [point.run.name for point in sweep.points] == [
        "compute-distribution=uniform_2_6,seed=0",
        "compute-distribution=constant_4,seed=0",
    ]
    many = read(f"device-compute-slots = {[[10 + n] * 60 for n in range(2)]}\ndevices = 60")
    names = [point.run.name for point in many.points]
    assert len(set(names)) == 2
    assert all(len(name) <= 120 for name in names)


def test_a_fleet_file_is_looked_for_beside_the_grid_and_named_without_its_folder(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "fleets").mkdir()
    for name, slots in (("slow", 9), ("fast", 2)):
        rows = "".join(f"{device},{slots}\n" for device in range(1, 5))
        (tmp_path / f"fleets/{name}.csv").write_text("device,compute_slots\n" + rows)
    sweep = read('fleet-file = ["fleets/slow.csv", "fleets/fast.csv"]')
    assert [point.run.name for point in sweep.points] == [
        "fleet-file=slow.csv,seed=0",
        "fleet-file=fast.csv,seed=0",
    ]
    assert sweep.points[0].run.parameters.fleet.device_compute_slots == (9,) * 4


def fleet_file(path: Path, slots: int) -> None:
    path.parent.mkdir()
    path.write_text("device,compute_slots\n" + "".join(f"{device},{slots}\n" for device in range(1, 5)))


def test_files_of_the_same_name_in_two_folders_are_two_points(read: Read, tmp_path: Path) -> None:
    for folder, slots in (("slow", 9), ("fast", 2)):
        fleet_file(tmp_path / folder / "fleet.csv", slots)
    sweep = read('fleet-file = ["slow/fleet.csv", "fast/fleet.csv"]')
    assert [(run.name, run.parameters.fleet.device_compute_slots[0]) for run in sweep.runs] == [
        ("fleet-file=slow_fleet.csv,seed=0", 9),
        ("fleet-file=fast_fleet.csv,seed=0", 2),
    ]


def test_absences_that_hold_the_same_numbers_are_two_points(read: Read) -> None:
    sweep = read("absences = [[[1, 10, 20], [2, 30]], [[1, 10], [20, 2, 30]]]\ndevices = 30")
    assert [run.name for run in sweep.runs] == [
        "absences=1x10x20+2x30,seed=0",
        "absences=1x10+20x2x30,seed=0",
    ]


def test_values_that_imitate_another_axis_are_told_apart() -> None:
    one, other = "x,partition=iid", "x"
    axes = (Axis("fleet_file", (one, other)), Axis("partition", ("iid,partition=iid", "iid")))
    points = [((one, "iid"), 0), ((other, "iid,partition=iid"), 0)]
    names = [combination_name(axes, values) for values, _ in points]
    assert len(set(names)) == 1
    assert len(set(folder_names(names, [json.dumps(point) for point in points]))) == 2


@given(
    st.lists(st.text("aA/_,x", min_size=1, max_size=200), min_size=2, max_size=6, unique=True),
    st.lists(st.lists(st.lists(st.integers(0, 2), max_size=3), max_size=3), min_size=1, unique_by=repr),
)
def test_points_that_differ_never_have_one_name(files: list[str], absences: list[object]) -> None:
    axes = (Axis("fleet_file", tuple(files)), Axis("absences", tuple(absences)))
    points = list(product(files, absences))
    names = [combination_name(axes, values) for values in points]
    folders = folder_names(names, [json.dumps(values) for values in points])
    assert len({name.lower() for name in folders}) == len(points)
    assert all(len(name) <= 120 for name in folders)


def test_digests_that_begin_alike_are_written_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotwise.batch.axes.DIGITS", 0)
    names = ["x" * 200 + end for end in "ab"]
    assert len(set(folder_names(names, names))) == 2


def test_what_cannot_be_is_left_out_if_the_file_says_so(read: Read) -> None:
    sweep = read("devices = [2, 4]\ngroup-size = [1, 3]\nskip-impossible = true\nseeds = [0, 1]")
    assert [point.values for point in sweep.points[::2]] == [(2, 1), (4, 1), (4, 3)]
    assert sweep.left_out is not None
    assert sweep.left_out.points == 2
    assert "devices=2,group-size=3: group_size = 3: must be from 1 to 2" in sweep.left_out.reason


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("group-sise = 5", "unknown option group_sise: allowed are absences"),
        ('group-size = "x"', "group_size = 'x': must be a whole number"),
        ("group-size = [1, 1.5]", "group_size = 1.5: must be a whole number"),
        ('schedule = ["sync", "asink"]\nskip-impossible = true', "schedule = asink: must be "),
        ("group-size = []", "group_size = []: must be a value, or a list of at least one"),
        ("group-size = [1, 2, 1]", "group_size = [1, 2, 1]: must be different values: 1 is there twice"),
        (
            "devices = [2, 4]\ngroup-size = [1, 3]",
            "devices=2,group-size=3: group_size = 3: must be from 1 to 2",
        ),
        ("devices = [2, 4]\ngroup-size = [1, 3]", "(skip-impossible = true leaves out what cannot be)"),
        ("group-size = [9]\nskip-impossible = true", "no combination can be; the first is group-size=9"),
        ("group-size = 9", "grid.toml: group_size = 9: must be from 1 to 4"),
        ("skip-impossible = 1", "skip-impossible = 1: must be true or false"),
        ("seeds = []", "seeds = []: must be a list"),
        ("seeds = 3", "seeds = 3: must be a list"),
        ("seeds = [1, 1]", "must be a list of different whole numbers"),
        ("seed = 1", "seed = 1: must be left out: seeds says which"),
        ("deadline = 3", "deadline = 3: must be at least"),
        ("channels = [[2], [1, 1, 1]]", "channels=1x1x1: channels"),
        ("fleet-file = ['none.csv']", "none.csv: No such file"),
        ('fleet-file = ["x\\u0000y"]', "not a CSV file: embedded null byte"),
        ("delay = [[1]]", "delay = [1]: must be auto or a whole number"),
        ("absences = [[]]\nlink-slots = [[1]]", "link_slots = [1]: must be a whole number"),
        ("[[point]]\nseed = 1", "unknown option point"),
        ("group-size = [", "must be valid TOML"),
    ],
)
def test_a_bad_grid_is_refused_with_its_file_and_what_is_wrong(read: Read, text: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert "grid.toml" in str(error.value)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_points_are_refused_before_they_are_made(read: Read, monkeypatch) -> None:
    monkeypatch.setattr(grid, "MOST_POINTS", 5)
    with pytest.raises(UserError, match="6 points: must be at most 5"):
        read("learning-rate = [0.1, 0.2, 0.3]\nseeds = [0, 1]")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml.*readable TOML file"):
        read_sweep(tmp_path / "none.toml")


EXAMPLES = Path(__file__).parents[2] / "examples/sweep"


@pytest.mark.parametrize(("name", "points"), [("paper-mnist", 18), ("quick", 16)])
def test_the_examples_can_be_read(name: str, points: int) -> None:
    assert len(read_sweep(EXAMPLES / f"{name}.toml").points) == points
