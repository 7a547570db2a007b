"""Files that are either complete or not there."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slotwise.errors import UserError


def check_writable(path: Path) -> None:
    """Refuse a path that `write_atomically` could not write, before the work whose result it is to hold."""
    target = _target(path)
    if not target.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise UserError(f"cannot write {path}: it exists and is not a file")
    effective = os.access in os.supports_effective_ids
    if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=effective):
        raise UserError(f"cannot write {path}: the folder {target.parent} is not writable")


def write_atomically(path: Path, data: bytes | str, *, private: bool = False) -> None:
    """Write all of ``data`` (text as UTF-8) or leave whatever was at ``path`` untouched.

    The bytes go to a hidden file in the same folder, reach the disk, and take the name in one step: a reader,
    or a crash at any moment, meets the old file or the new one, never half of it. A ``private`` file is
    for its owner's eyes only, from its first byte on.
    """
    content = data.encode() if isinstance(data, str) else data
    target = _target(path)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        _write_through(temporary, content, 0o600 if private else 0o666)
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A hidden folder to fill, for its owner only, that takes the name ``path`` when all went well.

    Raises:
        UserError: there is something at ``path`` already, or it cannot be written.
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
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def leftovers(folder: Path) -> list[Path]:
    """What killed processes have left of `write_atomically`; rubbish, if nobody is writing at the moment."""
    return list(folder.glob(f".{'[0-9a-f]' * 16}.tmp"))


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in it but such rubbish."""
    return not set(folder.iterdir()) - set(leftovers(folder))


def _target(path: Path) -> Path:
    """The file itself where ``path`` is a link to it: replacing a link would leave the file as it was."""
    return Path(os.path.realpath(path))


def _write_through(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(folder: Path, otherwise: str) -> Iterator[None]:
    """Keep other processes out of a folder; a process that is killed lets go by that.

    A file system without locks is used without one.

    Raises:
        UserError: another process has the folder; the message says ``otherwise``.
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
        os.close(descriptor)
