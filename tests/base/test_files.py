import os
import tempfile
from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import (
    appending,
    check_writable,
    held,
    leftovers,
    load_toml,
    new_folder,
    read_document,
    write_atomically,
    write_csv,
    write_document,
)

FULL = "No space left on device (free some space on that disk)"


def test_text_replaces_what_was_there_with_the_usual_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "k̂ → w₁")
    assert (tmp_path / "a").read_bytes() == "k̂ → w₁".encode()
    write_atomically(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "a", b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError) as caught:
        write_atomically(tmp_path / "a", b"new")
    assert str(caught.value) == f"cannot write {tmp_path / 'a'}: {FULL}"
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"cannot write {tmp_path}/no/a: there is no folder {tmp_path}/no$"):
        check_writable(tmp_path / "no" / "a")
    with pytest.raises(UserError, match=r"cannot write .*/no/a: No such file or directory$"):
        write_atomically(tmp_path / "no" / "a", b"")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="there is no folder"):
        check_writable(tmp_path / "file" / "a")
    with pytest.raises(UserError, match="cannot write"):
        write_atomically(tmp_path / "file" / "a", b"")
    with pytest.raises(UserError, match=r"it exists and is not a file$"):
        check_writable(tmp_path)
    check_writable(tmp_path / "a")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_folder_without_permission_is_named() -> None:
    # In a folder that anyone may reach, and as somebody else than root, who may write anywhere.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        user = os.geteuid()
        folder.chmod(0o555)
        os.seteuid(user or 65534)
        try:
            with pytest.raises(UserError, match=f"the folder {folder} is not writable$"):
                check_writable(folder / "a")
        finally:
            os.seteuid(user)


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_killed_write_leaves_only_what_leftovers_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".mine.tmp").touch()
    monkeypatch.setattr(Path, "unlink", lambda *_: None)  # a killed process tidies nothing up
    monkeypatch.setattr(Path, "replace", Path.resolve)
    write_atomically(tmp_path / "a", b"new")
    left = leftovers(tmp_path)
    assert [path.read_bytes() for path in left] == [b"new"]
    assert set(tmp_path.iterdir()) == {tmp_path / ".mine.tmp", *left}


def test_a_private_file_is_for_its_owner_only_from_its_first_byte_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: modes.append(os.fstat(descriptor).st_mode & 0o777))
    (tmp_path / "a").touch(mode=0o644)
    write_atomically(tmp_path / "a", b"secret", private=True)
    assert modes[0] == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_new_folder_is_there_when_all_of_it_is_and_replaces_none(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_folder(tmp_path / "a") as building:
            (building / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "a") as building:
        (building / "file").touch()
        assert not (tmp_path / "a").exists()
    assert list(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "a" / "file"]
    with pytest.raises(UserError, match="File exists"), new_folder(tmp_path / "b"):
        (tmp_path / "b").mkdir()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a", tmp_path / "b"]


def test_documents_and_csv_come_back_to_the_bit(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ("x", "y"), [(1, 0.1 + 0.2), (2, None)])
    assert (tmp_path / "a.csv").read_bytes() == b"x,y\n1,0.30000000000000004\n2,\n"
    write_csv(tmp_path / "a.csv", ("x",), [])
    assert (tmp_path / "a.csv").read_bytes() == b"x\n"
    write_document(tmp_path / "a.json", {"format": 3, "axes": [1, 2]})
    assert read_document(tmp_path / "a.json", 3, "axes") == {"format": 3, "axes": [1, 2]}
    with pytest.raises(UserError, match="No such file"):
        read_document(tmp_path / "none.json", 3)


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", "{}", '{"format": 2, "axes": 1}', '{"format": 3}', "\udcff"]
)
def test_a_damaged_or_foreign_document_is_one_line_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=f"^{path}: ") as caught:
        read_document(path, 3, "axes")
    assert "\n" not in str(caught.value)


def test_toml_errors_name_the_parameter_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = ")
    with pytest.raises(InputError) as caught:
        load_toml(tmp_path / "a.toml", "config")
    assert caught.value.parameter == "config"
    with pytest.raises(UserError, match="valid TOML"):
        load_toml(tmp_path / "a.toml")


def test_a_lock_is_released_although_a_process_that_starts_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_file = list[int](), os.open

    def note(*arguments: object) -> int:
        opened.append(open_file(*arguments))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(os, "open", note)
    with held(tmp_path, "is in use"):
        copy = os.dup(opened[0])  # as a fork makes one
        with pytest.raises(UserError, match="is in use"), held(tmp_path, "is in use"):
            pass
    with held(tmp_path, "is in use"):
        pass
    os.close(copy)


def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("/dev/full")
    with pytest.raises(UserError) as caught, appending(tmp_path / "log") as file:
        file.write("line\n")
    assert str(caught.value) == f"cannot write {tmp_path / 'log'}: {FULL}"
