import collections
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.data import DataError
from slotwise.data.cifar10 import read_members

WANTED = frozenset({"a", "b"})
Files = dict[str, bytes]
Pack = Callable[..., Path]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_compression_is_recognised_by_content(pack: Pack, mode: str) -> None:
    assert dict(
        read_members(pack({"a": b"1", "b": b"2"}, "any.name", mode=mode), WANTED, "an archive of letters")
    ) == {
        "a": b"1",
        "b": b"2",
    }


def test_only_wanted_files_come_out_of_archives_and_folders(
    pack: Pack, unpack: Callable[[Files], Path]
) -> None:
    assert list(read_members(pack({"a": b"1", "c": b"2"}), WANTED, "an archive of letters")) == [("a", b"1")]
    assert list(read_members(unpack({"a": b"1", "c": b"2"}), WANTED, "an archive of letters")) == [
        ("a", b"1")
    ]


def test_a_path_that_leads_out_of_the_archive_writes_nothing(pack: Pack, tmp_path: Path) -> None:
    path = pack({"a": b"1"}, below="../../outside/")
    before = sorted(tmp_path.parent.rglob("*"))
    assert dict(read_members(path, WANTED, "an archive of letters")) == {"a": b"1"}
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as file:
        for name, kind in (("a", tarfile.SYMTYPE), ("b", tarfile.LNKTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "/etc/passwd"
            file.addfile(link)
    assert list(read_members(path, WANTED, "an archive of letters")) == []


def test_a_pipe_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    assert list(read_members(tmp_path, WANTED, "an archive of letters")) == []


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="nowhere is neither a file nor a folder, must be an archive of letters"
    ):
        list(read_members(tmp_path / "nowhere", WANTED, "an archive of letters"))


@pytest.mark.parametrize("content", [b"", b"some text\n" * 100, b"\x1f\x8bnot really gzip", bytes(100)])
def test_a_file_that_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.tar.gz"
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"other.tar.gz is no archive or is damaged \(.+\), must be an archive of letters"
    ):
        list(read_members(path, WANTED, "an archive of letters"))


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_truncated_archive_is_named(pack: Pack, mode: str, kept: float) -> None:
    path = pack({"a": os.urandom(20_000), "b": os.urandom(20_000)}, mode=mode)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(DataError, match="is no archive or is damaged"):
        list(read_members(path, WANTED, "an archive of letters"))


def test_a_truncated_archive_without_compression_is_named(pack: Pack) -> None:
    path = pack({"a": bytes(20_000)}, mode="w")
    path.write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(DataError, match=r"is no archive or is damaged \(unexpected end of data\)"):
        list(read_members(path, WANTED, "an archive of letters"))


def test_a_file_over_the_limit_is_refused(pack: Pack, unpack: Callable[[Files], Path]) -> None:
    with pytest.raises(DataError, match=r"folder/a in .* is 11 bytes long, must be at most 10"):
        list(read_members(pack({"a": bytes(11)}), WANTED, "an archive of letters", limit=10))
    with pytest.raises(DataError, match="a is 11 bytes long, must be at most 10"):
        list(read_members(unpack({"a": bytes(11)}), WANTED, "an archive of letters", limit=10))


def test_an_archive_that_declares_a_huge_member_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    huge = tarfile.TarInfo("unwanted")
    huge.size = 2**40
    path = tmp_path / "bomb.tar"
    path.write_bytes(huge.tobuf() + bytes(1024))
    with pytest.raises(DataError, match="unpacks to more than 1073741824 bytes"):
        list(read_members(path, WANTED, "an archive of letters"))


def failing(member: tuple[str, bytes]) -> None:
    raise EOFError


def test_a_failure_of_the_reader_is_not_taken_for_a_damaged_archive(pack: Pack) -> None:
    members = read_members(pack({"a": b"1"}), WANTED, "an archive of letters")
    with pytest.raises(EOFError):
        collections.deque(map(failing, members))
