import hashlib
import json
import math
import platform
import struct
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InputError, UserError
from slotwise.learning import History, Point
from slotwise.learning.task import METRIC_NAME, RESERVED
from slotwise.runs import RunConfig, RunFolder, model_sha256
from slotwise.runs.run_folder import final_metrics

floats = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.integers(0, 10**9)
curves = st.sets(st.from_regex(METRIC_NAME, fullmatch=True), max_size=3).flatmap(
    lambda names: st.lists(
        st.builds(
            Point,
            *(numbers, numbers, floats, floats, numbers),
            st.fixed_dictionaries(dict.fromkeys(names, floats)),
        ),
        max_size=5,
    )
)


@given(curve=curves.filter(lambda curve: not any(set(RESERVED) & {*point.metrics} for point in curve)))
def test_history_csv_gives_back_the_same_floats(
    curve: list[Point], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("csv"))
    folder.write_points(curve)
    assert folder.points() == curve
    assert [math.copysign(1, p.loss) for p in folder.points()] == [math.copysign(1, p.loss) for p in curve]


def test_history_csv_is_one_line_a_point_under_the_names(folder: RunFolder) -> None:
    folder.write_points([Point(5, 1, 0.25, 0.5, 0)])
    assert (folder.path / "history.csv").read_bytes() == (
        b"slot,round,loss,accuracy,staleness\n5,1,0.25,0.5,0\n"
    )


def test_there_are_no_points_before_the_first_was_saved(folder: RunFolder) -> None:
    assert folder.points() == []


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n", "slot,round,loss,accuracy,staleness\n1,2\n", "slot,round,loss\n" + 200_000 * "1"],
    ids=["other-columns", "short-row", "huge-field"],
)
def test_a_damaged_history_is_named(text: str, folder: RunFolder) -> None:
    (folder.path / "history.csv").write_text(text)
    with pytest.raises(UserError, match=r"history\.csv: damaged"):
        folder.points()


def test_the_description_holds_every_parameter_the_versions_and_the_status(
    folder: RunFolder, parameters: RunConfig
) -> None:
    document = json.loads((folder.path / "run.json").read_text())
    assert document["format"] == 1
    assert document["status"] == folder.status == "running"
    assert document["parameters"].keys() == parameters.options().keys()
    assert document["parameters"]["devices"] == 6
    assert document["versions"]["slotwise"] == version("slotwise")
    assert document["versions"]["numpy"] == np.__version__
    assert document["versions"]["python"] == platform.python_version()


def test_the_parameters_come_back(folder: RunFolder, parameters: RunConfig) -> None:
    assert RunFolder.open(folder.path).parameters() == parameters


def test_unusual_parameters_come_back(tmp_path: Path) -> None:
    unusual = RunConfig().with_options(
        schedule="sync", channels=(), hidden=(3, 4), seed=2**64 - 1, learning_rate=1e-7
    )
    assert RunFolder.create(tmp_path / "run", unusual).parameters() == unusual


def test_a_model_is_written_by_name(folder: RunFolder) -> None:
    arrays = {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.zeros(2, np.float32)}
    folder.write_model(arrays)
    with np.load(folder.path / "model.npz") as archive:
        assert archive.files == list(arrays)
        assert all(np.array_equal(archive[name], arrays[name]) for name in arrays)


def test_the_identity_of_a_model_is_that_of_its_little_endian_bytes() -> None:
    expected = hashlib.sha256(struct.pack("<3f", 1.0, -0.0, 0.1)).hexdigest()
    assert model_sha256(np.array([1.0, -0.0, 0.1], dtype=np.float32)) == expected
    assert model_sha256(np.array([1.0, -0.0, 0.1], dtype=">f4")) == expected  # type: ignore[arg-type]


def test_an_empty_folder_is_taken(tmp_path: Path, parameters: RunConfig) -> None:
    assert RunFolder.create(tmp_path, parameters).is_run


def test_parent_folders_are_made(tmp_path: Path, parameters: RunConfig) -> None:
    assert RunFolder.create(tmp_path / "a" / "b", parameters).is_run


def test_what_a_kill_at_the_start_leaves_is_no_obstacle(tmp_path: Path, parameters: RunConfig) -> None:
    (tmp_path / ".0123456789abcdef.tmp").write_text("{")
    RunFolder.create(tmp_path, parameters)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_something_else_is_refused_and_left_alone(
    tmp_path: Path, parameters: RunConfig, overwrite: bool
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="a new or empty folder"):
        RunFolder.create(tmp_path, parameters, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_existing_run_is_refused(folder: RunFolder, parameters: RunConfig) -> None:
    with pytest.raises(InputError, match="it contains a run"):
        RunFolder.create(folder.path, parameters)


def test_overwriting_replaces_the_run_and_leaves_foreign_files(folder: RunFolder) -> None:
    folder.checkpoints.save(History((), {0: np.zeros(2, np.float32)}, 0))
    folder.write_points([])
    folder.write_model({})
    (folder.path / "notes.txt").write_text("mine")
    RunFolder.create(folder.path, RunConfig().with_options(seed=5), overwrite=True)
    assert folder.parameters().seed == 5
    assert folder.checkpoints.load() == (None, [])
    assert sorted(path.name for path in folder.path.iterdir()) == ["checkpoints", "notes.txt", "run.json"]


@pytest.mark.parametrize("place", ["file", "file/sub"])
def test_a_file_is_no_folder(tmp_path: Path, parameters: RunConfig, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"out = .*: must be a folder"):
        RunFolder.create(tmp_path / place, parameters)


def test_a_name_that_is_too_long_is_refused(tmp_path: Path, parameters: RunConfig) -> None:
    with pytest.raises(InputError, match="File name too long"):
        RunFolder.create(tmp_path / ("x" * 300), parameters)
    with pytest.raises(UserError, match="not a run folder"):
        RunFolder.open(tmp_path / ("x" * 300))


def test_a_folder_that_is_no_run_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a run folder \(no run\.json\)"):
        RunFolder.open(tmp_path)


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
        folder.parameters()


def test_a_foreign_format_is_named(folder: RunFolder) -> None:
    (folder.path / "run.json").write_text('{"format": 2, "status": "running", "parameters": {}}')
    with pytest.raises(UserError, match="format 2; this version reads format 1"):
        folder.parameters()


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
        folder.parameters()


def test_parameters_of_an_older_version_take_the_defaults(folder: RunFolder) -> None:
    document = json.loads((folder.path / "run.json").read_text())
    del document["parameters"]["update"]
    (folder.path / "run.json").write_text(json.dumps(document))
    assert folder.parameters().training.update == "sum"


def test_a_folder_is_held_by_one_at_a_time(folder: RunFolder) -> None:
    with folder.held(), pytest.raises(UserError, match="another process is training this run"):
        folder.held().__enter__()
    with folder.held():
        pass


def test_a_run_that_goes_on_is_not_overwritten(folder: RunFolder, parameters: RunConfig) -> None:
    with folder.held(), pytest.raises(UserError, match="another process is training this run"):
        RunFolder.create(folder.path, RunConfig().with_options(seed=5), overwrite=True)
    assert folder.parameters() == parameters


@pytest.mark.parametrize("text", ["x,y\n", "", None])
def test_a_finished_run_without_a_sound_curve_is_refused(
    folder: RunFolder, parameters: RunConfig, text: str | None
) -> None:
    folder.write_description(parameters, "finished")
    if text is not None:
        (folder.path / "history.csv").write_text(text)
    with pytest.raises(UserError, match=r"history\.csv: (damaged|missing)"):
        folder.points()


def test_a_final_metric_is_the_median_of_the_values_that_are_known() -> None:
    values = {50: 9.0, 91: 1.0, 95: math.nan, 98: 3.0, 100: 8.0}
    points = [Point(slot, 1, 0.5, 0.5, 0, {"f1": f1, "auc": math.nan}) for slot, f1 in values.items()]
    found = final_metrics(points, 100)
    assert found["f1"] == 3.0
    assert math.isnan(found["auc"])
    assert final_metrics([Point(10, 1, 0.5, 0.5, 0)], 100) == {}
