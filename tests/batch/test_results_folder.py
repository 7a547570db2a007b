"""A folder that cannot be used is refused as one that the user has named."""

from pathlib import Path

import pytest

from slotwise.batch import results_folder
from slotwise.batch.results_folder import ResultsFolder
from slotwise.errors import InputError


class Folder(ResultsFolder):
    maker = "slotwise test"
    manifest_name = "test.json"


def forbidden(*arguments: object) -> bool:
    raise PermissionError(13, "Permission denied")


def test_a_name_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="File name too long"):
        _ = Folder(tmp_path / ("x" * 300)).is_new


def test_a_folder_that_may_not_be_looked_into_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_file", forbidden)  # the tests may run as root, who may do everything
    with pytest.raises(InputError, match=r"out = .*: must be a folder .*\(Permission denied\)"):
        _ = Folder(tmp_path).is_new


def test_a_folder_that_may_not_be_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_folder, "held", forbidden)
    with pytest.raises(InputError, match="Permission denied"), Folder(tmp_path / "out").locked():
        pass


def test_what_goes_wrong_in_the_folder_later_is_not_said_of_it(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), Folder(tmp_path / "out").locked():
        raise ConnectionError
