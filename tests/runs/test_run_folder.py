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

from slotwise.base.errors import InputError, UserError
from slotwise.learning import History, Point
from slotwise.learning.task import METRIC_NAME, RESERVED
from slotwise.runs import RunConfig, RunFolder, model_sha256

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


def test_files_have_every_parameter_the_curve_and_the_model_by_name(
    folder: RunFolder, parameters: RunConfig
) -> None:
    folder.write_points([Point(5, 1, 0.25, 0.5, 0)])
    assert (folder.path / "history.csv").read_bytes() == (
        b"slot,round,loss,accuracy,staleness\n5,1,0.25,0.5,0\n"
    )
    document = json.loads((folder.path / "run.json").read_text())
    assert document["format"] == 1
    assert document["status"] == folder.status == "running"
    assert document["parameters"].keys() == parameters.options().keys()
    assert document["parameters"]["devices"] == 6
    assert document["versions"]["slotwise"] == version("slotwise")
    assert document["versions"]["numpy"] == np.__version__
    assert document["versions"]["python"] == platform.python_version()
    arrays = {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.zeros(2, np.float32)}
    folder.write_model(arrays)
    with np.load(folder.path / "model.npz") as archive:
        assert archive.files == list(arrays)
        assert all(np.array_equal(archive[name], arrays[name]) for name in arrays)


def test_unusual_parameters_come_back(tmp_path: Path) -> None:
    unusual = RunConfig().with_options(
        schedule="sync", channels=(), hidden=(3, 4), seed=2**64 - 1, learning_rate=1e-7
    )
    assert RunFolder.create(tmp_path / "run", unusual).parameters() == unusual


def test_the_identity_of_a_model_is_that_of_its_little_endian_bytes() -> None:
    expected = hashlib.sha256(struct.pack("<3f", 1.0, -0.0, 0.1)).hexdigest()
    assert model_sha256(np.array([1.0, -0.0, 0.1], dtype=np.float32)) == expected
    assert model_sha256(np.array([1.0, -0.0, 0.1], dtype=">f4")) == expected  # type: ignore[arg-type]


def test_a_folder_that_is_empty_new_or_left_by_a_kill_is_taken(tmp_path: Path, parameters: RunConfig) -> None:
    assert RunFolder.create(tmp_path, parameters).is_run
    assert RunFolder.create(tmp_path / "a" / "b", parameters).is_run
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / ".0123456789abcdef.tmp").write_text("{")
    RunFolder.create(tmp_path / "killed", parameters)
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["run.json"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_something_else_is_refused_and_left_alone(
    tmp_path: Path, parameters: RunConfig, overwrite: bool
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="a new or empty folder"):
        RunFolder.create(tmp_path, parameters, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_is_held_by_one_at_a_time_and_a_run_not_overwritten(
    folder: RunFolder, parameters: RunConfig
) -> None:
    with pytest.raises(InputError, match="it contains a run"):
        RunFolder.create(folder.path, parameters)
    with folder.held(), pytest.raises(UserError, match="another process is training this run"):
        folder.held().__enter__()
    with folder.held():
        pass
    with folder.held(), pytest.raises(UserError, match="another process is training this run"):
        RunFolder.create(folder.path, RunConfig().with_options(seed=5), overwrite=True)
    assert folder.parameters() == parameters


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


def test_a_folder_that_is_no_run_or_has_too_long_a_name_is_refused(
    tmp_path: Path, parameters: RunConfig
) -> None:
    with pytest.raises(InputError, match="File name too long"):
        RunFolder.create(tmp_path / ("x" * 300), parameters)
    with pytest.raises(UserError, match="not a run folder"):
        RunFolder.open(tmp_path / ("x" * 300))
    with pytest.raises(UserError, match=r"not a run folder \(no run\.json\)"):
        RunFolder.open(tmp_path)
