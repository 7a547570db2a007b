import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slotwise.batch.folder import Manifest, SweepFolder
from slotwise.batch.grid import Sweep
from slotwise.errors import UserError

Read = Callable[[str], Sweep]


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "out")


def begin(folder: SweepFolder, sweep: Sweep) -> None:
    with folder.locked():
        folder.begin(sweep)


def test_a_folder_remembers_its_sweep(folder: SweepFolder, read: Read) -> None:
    sweep = read("channels = [[2], [3]]\nseeds = [0, 1]")
    begin(folder, sweep)
    manifest = folder.manifest()
    assert [axis.title for axis in manifest.axes] == ["channels"]
    assert [(point.values, point.seed) for point in manifest.points[1:3]] == [(([2],), 1), (([3],), 0)]
    assert manifest.points[0].run == "channels=2,seed=0"


def test_the_same_sweep_goes_on_and_writes_nothing(folder: SweepFolder, read: Read) -> None:
    sweep = read("channels = [[2], [3]]\nlearning-rate = [0.1]")
    begin(folder, sweep)
    before = folder.manifest_path.stat()
    begin(folder, sweep)
    assert folder.manifest_path.stat() == before


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("learning-rate = [0.1, 0.3]", "other axes"),
        ("learning-rate = [0.1]", "other axes"),
        ("group-size = [1, 2]", "other axes"),
        ("learning-rate = [0.1, 0.2]\nseeds = [1]", "other seeds"),
        ("learning-rate = [0.1, 0.2]\nlocal-steps = 2", "other options"),
    ],
)
def test_another_sweep_is_refused(folder: SweepFolder, read: Read, other: str, told: str) -> None:
    begin(folder, read("learning-rate = [0.1, 0.2]"))
    before = folder.manifest_path.read_bytes()
    with pytest.raises(UserError, match=f"another folder: this one holds a sweep with {told}"):
        folder.check(read(other))
    assert folder.manifest_path.read_bytes() == before


def test_a_folder_of_somebody_else_is_refused(folder: SweepFolder, read: Read) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="a new or empty folder, or one that slotwise sweep made"):
        folder.check(read(""))


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 1, "axes": {}, "points": [3]}'])
def test_a_damaged_manifest_is_refused(folder: SweepFolder, text: str) -> None:
    folder.path.mkdir()
    folder.manifest_path.write_text(text)
    with pytest.raises(UserError, match=r"sweep\.json: damaged"):
        folder.manifest()


def test_a_manifest_that_names_folders_elsewhere_is_refused(folder: SweepFolder, read: Read) -> None:
    begin(folder, read(""))
    document = json.loads(folder.manifest_path.read_text())
    document["points"][0][2] = "../../elsewhere"
    folder.manifest_path.write_text(json.dumps(document))
    with pytest.raises(UserError, match="damaged"):
        folder.manifest()


def test_the_digest_does_not_know_parameters_that_are_as_by_default(read: Read) -> None:
    sweep = read("")
    (point,) = sweep.points
    same = replace(point.run, parameters=replace(point.run.parameters, mixing=0.6))
    other = replace(point.run, parameters=replace(point.run.parameters, mixing=0.7))
    digests = [Manifest.of(replace(sweep, points=(replace(point, run=run),))).digest for run in (same, other)]
    assert digests[0] == Manifest.of(sweep).digest != digests[1]
