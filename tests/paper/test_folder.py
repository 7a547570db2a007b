import pytest

from slotwise.errors import UserError
from slotwise.paper.catalogue import QUICK, selected
from slotwise.paper.folder import Manifest, ReproductionFolder, Request

REQUEST = Request(400, 1, ("async-mnist",))


@pytest.fixture
def folder(tmp_path) -> ReproductionFolder:
    return ReproductionFolder(tmp_path / "out")


def test_a_folder_remembers_and_joins_what_was_asked_for(folder: ReproductionFolder) -> None:
    folder.ask(False, {"mnist": Request(None, 1, ("async-mnist",))})
    folder.ask(False, {"cifar10": Request(500, 2, ("idfl-cifar10",))})
    manifest = folder.ask(False, {"mnist": Request(None, 3, ("tradeoff",))})
    assert folder.manifest() == manifest
    assert manifest.requests["mnist"] == Request(None, 3, ("async-mnist", "tradeoff"))
    assert [e.name for e in manifest.experiments()] == ["async-mnist", "tradeoff", "idfl-cifar10"]
    assert {r.parameters.deadline for e in manifest.experiments()[2:] for r in e.runs(0)} == {500}
    assert (manifest.seeds("cifar10"), manifest.seeds("readings")) == (range(2), range(1))


def test_a_foreign_folder_is_refused(folder: ReproductionFolder) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="a new or empty folder, or one that slotwise reproduce made"):
        folder.ask(False, {"mnist": REQUEST})
    assert [path.name for path in folder.path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"format": 1}', '{"format": 1, "quick": 0, "studies": 3}']
)
def test_a_damaged_manifest_is_refused(folder: ReproductionFolder, text: str) -> None:
    folder.path.mkdir()
    folder.manifest_path.write_text(text)
    with pytest.raises(UserError, match=r"reproduction\.json: damaged"):
        folder.manifest()


def test_other_settings_are_refused(folder: ReproductionFolder) -> None:
    folder.ask(True, {"mnist": REQUEST})
    with pytest.raises(UserError, match="this one was made with --quick"):
        folder.ask(False, {"mnist": REQUEST})
    with pytest.raises(UserError, match="its mnist runs were made with --deadline 400"):
        folder.ask(True, {"mnist": Request(None, 1, ("async-mnist",))})


def test_two_at_once_are_refused(folder: ReproductionFolder) -> None:
    folder.ask(True, {"mnist": REQUEST})
    with folder.locked(), pytest.raises(UserError, match="another slotwise reproduce"), folder.locked():
        pass


def test_the_quick_look_has_no_cifar10_but_its_claims_still_know_what_to_ask_for() -> None:
    manifest = Manifest(True, {"mnist": REQUEST})
    assert selected(QUICK, ["mnist"])
    assert {e.name for e in manifest.study("cifar10")} == {
        "async-cifar10",
        "idfl-cifar10",
        "comparison-cifar10",
    }
