"""Reading and writing files: atomic writes, CSV, JSON documents, TOML, and folder locks."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import json
import os
import secrets
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from slotwise.base.errors import InputError, UserError

_REMEDIES = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "raise the quota, or remove files",
    errno.EMFILE: "raise the limit of open files: ulimit -n, or LimitNOFILE= in a systemd unit",
    errno.ENFILE: "raise the limit of open files of this machine: sysctl fs.file-max",
}


def reason_of(error: OSError) -> str:
    """Return why the system has refused something, and the remedy if there is one."""
    remedy = _REMEDIES.get(error.errno or 0, "")
    return f"{error.strerror or error}{f' ({remedy})' if remedy else ''}"


def cannot_write(path: Path, error: OSError) -> UserError:
    """Return the error for a file or folder that cannot be written, with path, reason and remedy."""
    return UserError(f"cannot write {path}: {reason_of(error)}")


@contextmanager
def appending(path: Path) -> Iterator[TextIO]:
    """Open a text file to append to; an OSError in the block is a UserError that names the file."""
    try:
        with path.open("a", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from None


def check_writable(path: Path) -> None:
    """Raise a UserError if `write_atomically` could not write ``path``; call it before long work."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise UserError(f"cannot write {path}: it exists and is not a file")
    effective = os.access in os.supports_effective_ids
    if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=effective):
        raise UserError(f"cannot write {path}: the folder {target.parent} is not writable")


def write_atomically(path: Path, data: bytes | str | Iterable[str], *, private: bool = False) -> None:
    """Write all of ``data`` (text, whole or in pieces, as UTF-8) or leave what was at ``path`` untouched.

    The bytes go to a hidden file in the same folder, reach the disk, and take the name in one step: a reader,
    or a crash at any moment, finds the old file or the new one, never half of it. A ``private`` file is
    readable by its owner only, from its first byte on.
    """
    target = Path(os.path.realpath(path))  # replacing a link would leave the file it points to as it was
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    mode = 0o600 if private else 0o666
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            pieces = [data] if isinstance(data, bytes | str) else data
            for piece in pieces:
                file.write(piece.encode() if isinstance(piece, str) else piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file atomically. Floats are written in full: reading them gives the same numbers."""
    write_atomically(path, csv_text(header, rows))


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV text."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def write_document(path: Path, document: object) -> None:
    """Write an indented JSON document atomically."""
    write_atomically(path, json_text(document) + "\n")


def json_text(document: object) -> str:
    """Return an indented JSON document; numbers that are not finite, which JSON has not, become null."""
    return json.dumps(finite(document), indent=2, allow_nan=False)


def finite(value: Any) -> Any:
    """Return a value for JSON with None in place of numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def read_document(path: Path, file_format: int, *keys: str) -> dict[str, Any]:
    """Read a JSON document that slotwise wrote and that has at least ``keys``.

    Raises:
        UserError: the file cannot be read, is damaged, or is not of ``file_format``.
    """
    try:
        document = dict(json.loads(path.read_text(encoding="utf-8")))
        found = document["format"]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise damaged(path) from None
    if found != file_format:
        raise UserError(f"{path}: format {found}; this version reads format {file_format}")
    if not document.keys() >= set(keys):
        raise damaged(path)
    return document


def damaged(path: Path) -> UserError:
    """Return the error for a document whose content is not what slotwise writes."""
    return UserError(f"{path}: damaged; it must be JSON that slotwise wrote")


def load_toml(path: Path, parameter: str | None = None) -> dict[str, Any]:
    """Read a TOML document; errors name ``parameter``, if the path was given as one."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        allowed = f"a readable TOML file ({getattr(error, 'strerror', None) or error})"
    except ValueError as error:  # TOML's own errors, and Python's for a number of thousands of digits
        allowed = f"valid TOML ({error})"
    if parameter is None:
        raise UserError(f"{path}: must be {allowed}")
    raise InputError(parameter, path, allowed)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Create a hidden folder to fill, for its owner only; it takes the name ``path`` if the block succeeds.

    Raises:
        UserError: ``path`` exists already, or cannot be written.
    """
    target = path.absolute()
    try:
        building = Path(tempfile.mkdtemp(prefix=".", suffix=".tmp", dir=target.parent))
        try:
            yield building
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            building.rename(target)
            _sync_folder(target.parent)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files of killed processes; another process that writes now has some, too."""
    return list(folder.glob(f".{'[0-9a-f]' * 16}.tmp"))


def is_empty(folder: Path) -> bool:
    """Return whether a folder holds nothing but `leftovers`."""
    return not set(folder.iterdir()) - set(leftovers(folder))


def _sync_folder(folder: Path) -> None:
    """Flush a folder, so that a new name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(folder: Path, otherwise: str) -> Iterator[None]:
    """Lock a folder against other processes; a process that is killed releases its lock.

    A file system without locks is used without one.

    Raises:
        UserError: another process has locked the folder; the message ends with ``otherwise``.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder}: {otherwise}") from None
        except OSError:
            pass
        yield
    finally:
        # Closing alone keeps the lock while a process that is being started has a copy of the descriptor.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
