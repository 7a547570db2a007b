"""Read files of a folder or a tar archive into memory, without extracting them."""

import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from slotwise.data.dataset import DataError

_FILE_LIMIT = 64 * 2**20
_ARCHIVE_LIMIT = 2**30


def read_members(path: Path, wanted: frozenset[str], allowed: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each wanted file in a folder, or in a tar archive at any depth.

    Members of an archive are known by their last name only and are never extracted, so no path in an
    archive can lead anywhere. Compression is recognised by content.

    ``allowed`` describes in messages what ``path`` must be.

    Raises:
        DataError: ``path`` is neither, cannot be read, or exceeds the limits on sizes.
    """
    if path.is_dir():
        for file in (path / name for name in sorted(wanted)):
            if file.is_file():
                try:
                    _check_size(str(file), file.stat().st_size)
                    content = file.read_bytes()
                except OSError as error:
                    raise DataError(f"{file} cannot be read: {error.strerror}") from None
                yield file.name, content
    elif path.is_file():
        yield from _from_archive(path, wanted, allowed)
    else:
        raise DataError(f"{path} is neither a file nor a folder, must be {allowed}")


def _from_archive(path: Path, wanted: frozenset[str], allowed: str) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                # This limits what is decompressed on the way to the next member, wanted or not.
                if member.offset_data + member.size > _ARCHIVE_LIMIT:
                    raise DataError(
                        f"{path} unpacks to more than {_ARCHIVE_LIMIT} bytes, must be at most that"
                    )
                name = PurePosixPath(member.name).name
                if name in wanted and member.isfile():
                    _check_size(f"{member.name} in {path}", member.size)
                    file = archive.extractfile(member)
                    yield name, b"" if file is None else file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise DataError(f"{path} is no archive or is damaged ({reason}), must be {allowed}") from None


def _check_size(what: str, size: int) -> None:
    if size > _FILE_LIMIT:
        raise DataError(f"{what} is {size} bytes long, must be at most {_FILE_LIMIT}")
