"""The folder of a reproduction, and `reproduce` where nothing has to be trained."""

import json
import shutil
from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.batch.batch_folder import BatchFolder
from slotwise.paper.experiments import PAPER, all_runs
from slotwise.paper.report_page import write_report
from slotwise.paper.reproduction import (
    Manifest,
    Request,
    add_requests,
    reproduce,
    reproduction_folder,
)

PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "paper"
REQUEST = Request(400, 1, ("async-mnist",))


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    return reproduction_folder(tmp_path / "out")


def test_a_folder_remembers_and_joins_requests(folder: BatchFolder) -> None:
    add_requests(folder, False, {"mnist": Request(None, 1, ("async-mnist",))}).write(folder)
    add_requests(folder, False, {"cifar10": Request(500, 2, ("idfl-cifar10",))}).write(folder)
    manifest = add_requests(folder, False, {"mnist": Request(None, 3, ("tradeoff",))})
    manifest.write(folder)
    assert Manifest.read(folder) == manifest
    assert manifest.requests["mnist"] == Request(None, 3, ("async-mnist", "tradeoff"))
    assert [e.name for e in manifest.experiments()] == ["async-mnist", "tradeoff", "idfl-cifar10"]
    assert {r.config.deadline for e in manifest.experiments()[2:] for r in e.runs(0)} == {500}
    assert (manifest.seeds("cifar10"), manifest.seeds("readings")) == (range(2), range(1))
    assert len(manifest.runs()) == 3 * (6 + 7) + 2 * 5


def test_a_quick_look_takes_its_seeds_from_the_published_ones() -> None:
    assert Manifest(True, {"mnist": Request(None, 2, ("schedules-mnist",))}).seeds("mnist") == (1, 2)
    assert Manifest(False, {"mnist": Request(None, 2, ("async-mnist",))}).seeds("mnist") == range(2)


def test_a_folder_of_something_else_is_refused(folder: BatchFolder) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError) as refused:
        reproduce(folder.path, ["table1"])
    assert refused.value.parameter == "out"
    assert [path.name for path in folder.path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"format": 1}', '{"format": 1, "quick": 0, "studies": 3}']
)
def test_a_damaged_manifest_is_refused(folder: BatchFolder, text: str) -> None:
    folder.path.mkdir()
    folder.manifest_path.write_text(text)
    with pytest.raises(UserError, match=r"reproduction\.json: damaged"):
        reproduce(folder.path, ["table1"])


def test_other_settings_are_refused(folder: BatchFolder) -> None:
    add_requests(folder, True, {"mnist": REQUEST}).write(folder)
    with pytest.raises(InputError, match="this one is a quick look"):
        add_requests(folder, False, {"mnist": REQUEST})
    with pytest.raises(InputError, match="its mnist runs have deadline 400"):
        add_requests(folder, True, {"mnist": Request(None, 1, ("async-mnist",))})


def test_two_at_once_are_refused(folder: BatchFolder) -> None:
    with folder.locked(), pytest.raises(UserError, match="another slotwise reproduce"):
        reproduce(folder.path, ["table1"])


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        ({"experiments": ["figure9"]}, "experiments"),
        ({"experiments": ["cifar10"], "quick": True}, "experiments"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": 4, "quick": True}, "seeds"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": 100}, "deadline"),
        ({"workers": 0}, "workers"),
    ],
)
def test_mistakes_leave_nothing(tmp_path: Path, parameters: dict[str, object], refused: str) -> None:
    with pytest.raises(InputError) as error:
        reproduce(tmp_path / "out", **parameters)  # type: ignore[arg-type]
    assert error.value.parameter == refused
    assert not (tmp_path / "out").exists()


def test_table_and_timeline_train_nothing(tmp_path: Path) -> None:
    made = reproduce(tmp_path / "out", ["table1", "timeline"])
    assert (made.failures, made.skipped, made.stopped) == ((), (), False)
    assert '<td class="number">24976</td>' in made.report.read_text(encoding="utf-8")
    assert not (made.path / "runs").exists()
    (made.path / "figures" / "drawn.json").write_text("7")  # damaged: figures are drawn again
    reproduce(tmp_path / "out", ["table1"])
    assert (made.path / "figures" / "drawn.json").read_text() == "{}\n"


def test_the_published_manifest_is_read_and_all_its_runs_are_there() -> None:
    manifest = Manifest.read(reproduction_folder(PUBLISHED))
    assert not manifest.quick
    runs = manifest.runs()
    published = {path.name for path in (PUBLISHED / "runs").iterdir()}
    # Studies that are not complete yet are not on the page, but their finished runs are kept.
    assert {run.name for run in runs} <= published <= {run.name for run in all_runs(PAPER, range(3))}
    for run in runs:
        saved = json.loads((PUBLISHED / "runs" / run.name / "run.json").read_text())
        assert saved["status"] in {"finished", "diverged"}


def test_the_published_tables_are_made_from_the_published_histories(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED / "runs", tmp_path / "runs")
    write_report(tmp_path, Manifest.read(reproduction_folder(PUBLISHED)), figure_files=False)
    assert (tmp_path / "results.md").read_text() == (PUBLISHED / "results.md").read_text()


def test_runs_with_different_data_are_not_combined(folder: BatchFolder) -> None:
    add_requests(folder, False, {"cifar10": Request(None, 1, ("async-cifar10",))}).write(folder)
    names = ["cifar10-async-S1-T100000-seed0", "cifar10-async-S2-T100000-seed0"]
    for name in names:
        shutil.copytree(PUBLISHED / "runs" / name, folder.run(name).path)
    path = folder.run(names[0]).path / "run.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"data_sha256": "0" * 64}))
    with pytest.raises(UserError, match="cifar10 has changed") as refused:
        reproduce(folder.path, ["table1"])
    assert all(name in str(refused.value) for name in names)
    assert not (folder.path / "report.html").exists()
