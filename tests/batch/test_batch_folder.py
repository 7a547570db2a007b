from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.batch import BatchFolder, BatchSpec, batch_folder
from slotwise.batch.batch_folder import check_same_batch, write_spec

Read = Callable[[str], BatchSpec]


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    return BatchFolder(tmp_path / "out")


def begin(folder: BatchFolder, spec: BatchSpec) -> None:
    with folder.locked():
        check_same_batch(folder, spec)
        write_spec(folder, spec)


def test_a_folder_remembers_its_batch_and_is_not_written_again(folder: BatchFolder, read: Read) -> None:
    spec = read("channels = [[2], [3]]\nseeds = [0, 1]")
    begin(folder, spec)
    document = folder.read_manifest()
    assert (document["made_by"], document["axes"]) == ("slotwise sweep", {"channels": [[2], [3]]})
    points = [["", [[2]], 1, "channels=2,seed=1"], ["", [[3]], 0, "channels=3,seed=0"]]
    assert document["points"][1:3] == points
    before = folder.manifest_path.stat()
    begin(folder, spec)
    assert folder.manifest_path.stat() == before


@pytest.mark.parametrize(
    "other",
    [
        "learning-rate = [0.1, 0.3]",
        "learning-rate = [0.1]",
        "group-size = [1, 2]",
        "learning-rate = [0.1, 0.2]\nseeds = [1]",
        "learning-rate = [0.1, 0.2]\nlocal-steps = 2",
        "learning-rate = [0.1, 0.2]\n[[case]]\nname = 'a'",
    ],
)
def test_another_batch_is_refused(folder: BatchFolder, read: Read, other: str) -> None:
    begin(folder, read("learning-rate = [0.1, 0.2]"))
    before = folder.manifest_path.read_bytes()
    with pytest.raises(InputError, match="this one holds a batch with other") as error:
        check_same_batch(folder, read(other))
    assert error.value.parameter == "out"
    assert folder.manifest_path.read_bytes() == before


def test_a_batch_may_grow(folder: BatchFolder, read: Read) -> None:
    case = "[[case]]\nname = 'a'\n"
    begin(folder, read(f"learning-rate = [0.1, 0.2]\n{case}"))
    begin(folder, read(f"learning-rate = [0.1, 0.2, 0.3]\nseeds = [1, 0]\n{case}"))
    grown = (
        f"learning-rate = [0.1, 0.2, 0.3]\nseeds = [1, 0]\n{case}[[case]]\nname = 'b'\ngroup-size = [1, 2]"
    )
    begin(folder, read(grown))
    assert len(folder.read_manifest()["points"]) == 18


def test_a_folder_of_something_else_is_refused(folder: BatchFolder, read: Read) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="a new or empty folder") as error:
        check_same_batch(folder, read(""))
    assert error.value.parameter == "out"


def test_an_option_with_its_default_changes_nothing(folder: BatchFolder, read: Read) -> None:
    begin(folder, read(""))
    check_same_batch(folder, read("bits = 32"))
    with pytest.raises(InputError):
        check_same_batch(folder, read("bits = 8"))


def test_other_commands_have_manifests_of_their_own(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out", "slotwise test", "test.json", "pilots")
    folder.write_manifest({"anything": [1, 2]})
    assert folder.read_manifest() == {"format": 1, "made_by": "slotwise test", "anything": [1, 2]}
    assert folder.run("a").path == tmp_path / "out/pilots/a"
    folder.manifest_path.write_text('{"format": 2}')
    with pytest.raises(UserError, match="format 2; this version reads format 1"):
        folder.read_manifest()


def forbidden(*arguments: object) -> bool:
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="File name too long"):
        _ = BatchFolder(tmp_path / ("x" * 300)).is_new
    monkeypatch.setattr(batch_folder, "held", forbidden)
    with pytest.raises(InputError, match="Permission denied"), BatchFolder(tmp_path / "out").locked():
        pass
    monkeypatch.setattr(Path, "is_file", forbidden)  # the tests may run as root, who may do everything
    with pytest.raises(InputError, match="Permission denied"):
        _ = BatchFolder(tmp_path).is_new


@pytest.mark.parametrize("existing", [".", "a", "a/out"])
def test_what_was_created_before_an_error_is_removed_and_nothing_else(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).mkdir(parents=True, exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    folder = BatchFolder(tmp_path / "a/out")

    def fail() -> None:
        with folder.locked():
            folder.write_manifest({"anything": 1})
            folder.runs.mkdir()
            raise UserError("no")

    with pytest.raises(UserError, match="no"):
        fail()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_a_run_stays_after_an_error(folder: BatchFolder) -> None:
    def fail() -> None:
        with folder.locked():
            (folder.runs / "one").mkdir(parents=True)
            (folder.runs / "one" / "run.json").write_text("{}")
            raise UserError("no")

    with pytest.raises(UserError, match="no"):
        fail()
    assert (folder.runs / "one" / "run.json").is_file()


def test_later_errors_are_not_blamed_on_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), BatchFolder(tmp_path / "out").locked():
        raise ConnectionError
