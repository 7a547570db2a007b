import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError, UserError
from slotwise.batch import BatchSpec, specification
from slotwise.batch.axes import Axis, combination_name, folder_names
from slotwise.runs import RunConfig
from slotwise.schedule.costs import Powers

Read = Callable[[str], BatchSpec]


def test_every_combination_is_a_point_once_with_each_seed(read: Read) -> None:
    spec = read('schedule = ["sync", "async"]\nlearning-rate = [0.1, 0.2, 0.3]\nseeds = [3, 5]')
    assert [axis.name for axis in spec.axes] == ["schedule", "learning_rate"]
    assert [point.run.name for point in spec.points[:3]] == [
        "schedule=sync,learning-rate=0.1,seed=3",
        "schedule=sync,learning-rate=0.1,seed=5",
        "schedule=sync,learning-rate=0.2,seed=3",
    ]
    assert len({point.run.config for point in spec.points}) == len(spec.points) == 12
    last = spec.points[-1].run.config
    assert (last.schedule, last.training.learning_rate, last.seed) == ("async", 0.3, 5)
    assert last.channel.devices == 4
    assert [point.run.name for point in read("seeds = [0, 1]").points] == ["seed=0", "seed=1"]
    assert [point.seed for point in read("").points] == [0]


def test_a_file_is_named_by_a_path_or_by_text(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    path.write_text("seeds = [3, 5]\n", encoding="utf-8")
    assert BatchSpec.read(str(path)) == BatchSpec.read(path)


def test_lists_of_lists_are_axes_where_a_list_is_a_value(read: Read) -> None:
    assert read("channels = [2, 3]\nhidden = [4]").axes == ()
    spec = read("channels = [[2, 3], [4]]\nhidden = [[], [5]]")
    assert [point.run.config.model.network.channels for point in spec.points] == [(2, 3), (2, 3), (4,), (4,)]
    assert [point.run.name for point in spec.points[:2]] == [
        "channels=2x3,hidden=none,seed=0",
        "channels=2x3,hidden=5,seed=0",
    ]
    assert read("absences = [[1, 10, 20]]").axes == ()
    spec = read("absences = [[], [[1, 10, 20], [2, 30]]]")
    assert [point.run.config.fleet.presence.absences for point in spec.points] == [
        (),
        ((1, 10, 20), (2, 30, None)),
    ]


def test_points_that_are_the_same_training_share_a_run(read: Read) -> None:
    # With S = N nothing is ever stale: no delay is free, and intentional delay is the asynchronous schedule.
    spec = read('schedule = ["async", "idfl"]\ngroup-size = [1, 4]\ncompute-slots = 1')
    names = [point.run.name for point in spec.points]
    assert names == [
        "schedule=async,group-size=1,seed=0",
        "schedule=async,group-size=4,seed=0",
        "schedule=idfl,group-size=1,seed=0",
        "schedule=async,group-size=4,seed=0",
    ]
    assert len(spec.runs) == 3
    spec = read('schedule = "idfl"\ngroup-size = 1\ncompute-slots = 1\ndelay = [0, 2, "auto"]')
    assert spec.points[1].run is spec.points[2].run
    assert spec.points[0].run.config.schedule == "async"
    spec = read('schedule = ["async", "idfl"]\ngroup-size = 4\ndevice-compute-slots = [1, 2, 3, 9]')
    assert len(spec.runs) == 2


def test_values_that_a_folder_cannot_be_named_after_are_told_apart(read: Read) -> None:
    spec = read('compute-distribution = ["uniform:2:6", "constant:4"]')
    assert [point.run.name for point in spec.points] == [
        "compute-distribution=uniform_2_6,seed=0",
        "compute-distribution=constant_4,seed=0",
    ]
    many = read(f"device-compute-slots = {[[10 + n] * 60 for n in range(2)]}\ndevices = 60")
    names = [point.run.name for point in many.points]
    assert len(set(names)) == 2
    assert all(len(name) <= 120 for name in names)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("fleets/slow.csv", "fleets/fast.csv"), ("slow.csv", "fast.csv")),
        (("slow/fleet.csv", "fast/fleet.csv"), ("slow_fleet.csv", "fast_fleet.csv")),
    ],
)
def test_fleet_files_are_looked_for_beside_the_grid_and_named_as_short_as_differs(
    read: Read, tmp_path: Path, files: tuple[str, str], names: tuple[str, str]
) -> None:
    for file, slots in zip(files, (9, 2), strict=True):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        rows = "".join(f"{device},{slots}\n" for device in range(1, 5))
        (tmp_path / file).write_text("device,compute_slots\n" + rows)
    spec = read(f"fleet-file = {list(files)}")
    assert [run.name for run in spec.runs] == [f"fleet-file={name},seed=0" for name in names]
    assert [run.config.fleet.speeds.device_compute_slots for run in spec.runs] == [(9,) * 4, (2,) * 4]


def test_absences_that_hold_the_same_numbers_are_two_points(read: Read) -> None:
    spec = read("absences = [[[1, 10, 20], [2, 30]], [[1, 10], [20, 2, 30]]]\ndevices = 30")
    assert [run.name for run in spec.runs] == [
        "absences=1x10x20+2x30,seed=0",
        "absences=1x10+20x2x30,seed=0",
    ]


@given(
    st.lists(st.text("aA/_,x", min_size=1, max_size=200), min_size=2, max_size=6, unique=True),
    st.lists(st.lists(st.lists(st.integers(0, 2), max_size=3), max_size=3), min_size=1, unique_by=repr),
)
def test_points_that_differ_never_have_one_name(files: list[str], absences: list[object]) -> None:
    axes = (Axis("fleet_file", tuple(files)), Axis("absences", tuple(absences)))
    points = list(product(files, absences))
    names = [combination_name("", axes, values) for values in points]
    folders = folder_names(names, [json.dumps(values) for values in points])
    assert len({name.lower() for name in folders}) == len(points)
    assert all(len(name) <= 120 for name in folders)


def test_digests_that_begin_alike_are_written_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotwise.batch.axes.DIGITS", 0)
    names = ["x" * 200 + end for end in "ab"]
    assert len(set(folder_names(names, names))) == 2


def test_what_cannot_be_is_left_out_if_the_file_says_so(read: Read) -> None:
    spec = read("devices = [2, 4]\ngroup-size = [1, 3]\nskip-impossible = true\nseeds = [0, 1]")
    assert [point.values for point in spec.points[::2]] == [(2, 1), (4, 1), (4, 3)]
    assert spec.skipped is not None
    assert spec.skipped.points == 2
    assert "devices=2,group-size=3: group_size = 3: must be from 1 to 2" in spec.skipped.reason


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("group-sise = 5", "group-sise"),
        ('group-size = "x"', "group-size = 'x'"),
        ("group-size = [1, 1.5]", "group-size = 1.5"),
        ('schedule = ["sync", "asink"]\nskip-impossible = true', "schedule = asink"),
        ("group-size = []", "group-size = []"),
        ("group-size = [1, 2, 1]", "1 is there twice"),
        ("devices = [2, 4]\ngroup-size = [1, 3]", "devices=2,group-size=3: group-size = 3"),
        ("devices = [2, 4]\ngroup-size = [1, 3]", "skip-impossible = true"),
        ("group-size = [9]\nskip-impossible = true", "group-size = 9"),
        ("group-size = 9", "group-size = 9"),
        ("skip-impossible = 1", "skip-impossible = 1"),
        ("seeds = []", "seeds = []"),
        ("seeds = 3", "seeds = 3"),
        ("seeds = [1, 1]", "seeds = [1, 1]"),
        ("seeds = ['x']", "seeds = 'x'"),
        ("seed = 1", "seed cannot be combined with seeds"),
        ("deadline = 3", "deadline = 3"),
        ("channels = [[2], [1, 1, 1]]", "channels=1x1x1: channels"),
        ("fleet-file = ['none.csv']", "none.csv: No such file"),
        ("fleet-file = 'none.csv'", "none.csv: No such file"),
        ('fleet-file = ["x\\u0000y"]', "null byte"),
        ("delay = [[1]]", "delay = [1]"),
        ("absences = [[]]\nlink-slots = [[1]]", "link-slots = [1]"),
        ("[[point]]\nseed = 1", "unknown table point"),
        ("group-size = [", "valid TOML"),
        ("case = 5", "[[case]]"),
        ("[[case]]\nschedule = 'sync'\n", "case number 1: name is missing"),
        ("[[case]]\nname = 'a/b'\n", "case number 1: name = a/b"),
        ("[[case]]\nname = 'a'\n[[case]]\nname = 'a'\n", "case number 2: name = a"),
        ("[[case]]\nname = 'a'\nflux = 1\n", "unknown option flux"),
        ("[[case]]\nname = 'a'\nseed = 1\n", "case a: seed"),
        ("[[case]]\nname = 'a'\nuplink-loss = 1.0\n", "a: uplink-loss = 1.0"),
        ("[[case]]\nname = 'a'\ngroup-size = [1, 9]\n", "a,group-size=9: group-size = 9"),
        ("[powers]\nflying = 1\n", "unknown key of powers flying"),
        ("[powers]\ncomputing = 1\n", "powers: sending: missing"),
        ("[powers]\ncomputing = -2.0\nsending = 1\nreceiving = 1\n", "powers: computing = -2.0"),
        ("powers = 3", "powers: must be a table"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(read: Read, text: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).count("grid.toml") == 1
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_points_are_refused_before_they_are_made(read: Read, monkeypatch) -> None:
    monkeypatch.setattr(specification, "MOST_POINTS", 5)
    with pytest.raises(UserError, match="6 points: must be at most 5"):
        read("learning-rate = [0.1, 0.2, 0.3]\nseeds = [0, 1]")


CASES = """
learning-rate = [0.1, 0.2]
seeds = [0, 1]

[[case]]
name = "plain"

[[case]]
name = "sizes"
group-size = [1, 4]
learning-rate = 0.3

[[case]]
name = "same"
learning-rate = [0.2]
"""


def test_cases_override_common_options_and_may_have_axes_of_their_own(read: Read) -> None:
    spec = read(CASES)
    assert [point.run.name for point in spec.points[::2]] == [
        "plain,learning-rate=0.1,seed=0",
        "plain,learning-rate=0.2,seed=0",
        "sizes,group-size=1,seed=0",
        "sizes,group-size=4,seed=0",
        "plain,learning-rate=0.2,seed=0",  # the same training
    ]
    assert [axis.name for axis in spec.axes] == ["learning_rate", "group_size"]
    # Every point has a value on every axis, also where its case gives it only one, or none.
    assert [point.values for point in spec.points[::2]] == [(0.1, 2), (0.2, 2), (0.3, 1), (0.3, 4), (0.2, 2)]
    assert spec.axes[0].values == (0.1, 0.2, 0.3)


def test_another_way_to_give_a_speed_replaces_the_common_one(read: Read) -> None:
    spec = read(
        'compute-slots = 4\n[[case]]\nname = "a"\ncompute-distribution = ["uniform:2:6", "constant:9"]'
    )
    assert [run.config.fleet.speeds.compute_distribution for run in spec.runs] == [
        "uniform:2:6",
        "constant:9",
    ]


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("absences = [[1, 5, 9]]", {"compute_slots": 7, "link_slots": 3}),
        ('link-distribution = "uniform:1:6"', {"compute_slots": 7, "link_slots": 3, "uplink_slots": None}),
        ('compute-distribution = "uniform:1:6"', {"link_slots": 3, "uplink_slots": 2}),
        ("samples-per-slot = 2", {"compute_slots": 4, "link_slots": 3, "uplink_slots": 2}),
        ('radio-link = "fixed-rate"', {"compute_slots": 7, "link_slots": 3}),
    ],
)
def test_only_other_ways_to_say_the_same_thing_are_replaced(
    read: Read, option: str, kept: dict[str, object]
) -> None:
    uplinks = "" if "radio" in option else "uplink-slots = 2\n"
    spec = read(f'compute-slots = 7\nlink-slots = 3\n{uplinks}[[case]]\nname = "a"\n{option}')
    options = spec.runs[0].config.options()
    assert {name: options.get(name) for name in kept} == kept


def test_a_batch_can_be_built_in_python() -> None:
    config = RunConfig.from_options({"devices": 4, "group_size": 2, "deadline": 200, "channels": [2, 3]})
    powers = Powers(computing=1, sending=1, receiving=1)
    spec = BatchSpec.of(
        {"sync": config.with_options(schedule="sync"), "table": {"devices": 4, "group_size": 4}},
        axes={"group_size": [1, 2]},
        seeds=range(2),
        powers=powers,
    )
    assert [(point.case, point.values, point.seed) for point in spec.points] == [
        ("sync", (1,), 0),
        ("sync", (1,), 1),
        ("sync", (2,), 0),
        ("sync", (2,), 1),
        ("table", (4,), 0),
        ("table", (4,), 1),
    ]
    expected = config.with_options(schedule="sync", group_size=1, seed=1)
    assert (spec.points[1].run.config, spec.powers) == (expected, replace(powers, slot_seconds=1.0))
    assert len(BatchSpec.of(axes={"group_size": [1, 5]}).points) == 2
    unequal = RunConfig.from_options({"devices": 4, "group_size": 2, "compute_distribution": "uniform:2:6"})
    (point,) = BatchSpec.of({"unequal": unequal}).points
    assert point.run.config == unequal


def test_mistakes_in_python_name_the_parameter() -> None:
    with pytest.raises(InputError) as error:
        BatchSpec.of(seeds=[])
    assert error.value.parameter == "seeds"
    with pytest.raises(InputError) as error:
        BatchSpec.of({"a b": {}})
    assert error.value.parameter == "name"


EXAMPLES = Path(__file__).parents[2] / "examples/sweep"


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("paper-mnist", 18),
        ("quick", 16),
        ("two-classes", 15),
        ("bits-or-rounds", 9),
        ("lossy-link", 9),
        ("access", 15),
        ("compressors", 12),
    ],
)
def test_the_examples_can_be_read(name: str, points: int) -> None:
    spec = BatchSpec.read(EXAMPLES / f"{name}.toml")
    assert len(spec.points) == points
    assert (spec.powers is None) == (name in {"paper-mnist", "quick"})
