"""Sealed files: states of a run, each in one file that proves itself by its checksum.

A file is the sha256 of what follows, in hexadecimal, a line feed, and the content. The newest two are kept,
so that a damaged one costs what happened since the one before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from slotwise.errors import UserError
from slotwise.files import leftovers, write_atomically

KEPT = 2
State = TypeVar("State")


class SealedFiles:
    """The states of one run, numbered by rounds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, round_number: int, data: bytes) -> None:
        """Write a state, then drop the oldest, and those of later rounds: they were found damaged."""
        self._make_folder()
        newest = self.folder / f"round-{round_number:09d}.checkpoint"
        write_atomically(newest, sealed(data))
        files = self.paths()
        for path in [*files[: files.index(newest)], *files[files.index(newest) + KEPT :]]:
            path.unlink(missing_ok=True)

    def load(self, decode: Callable[[bytes], State | None]) -> tuple[State | None, list[Path]]:
        """The newest intact state, if any, and the damaged files that were passed over."""
        damaged: list[Path] = []
        for path in self.paths():
            data = _content(path)
            state = None if data is None else decode(data)
            if state is not None:
                return state, damaged
            damaged.append(path)
        return None, damaged

    def clear(self) -> None:
        """Remove them all, and what a killed process has left of one."""
        for path in (*self.paths(), *leftovers(self.folder)):
            path.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write {self.folder}: {error.strerror or error}") from None

    def paths(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("round-*.checkpoint"), reverse=True)


def sealed(data: bytes) -> bytes:
    """The content of a file that holds ``data``."""
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def unsealed(content: bytes) -> bytes | None:
    """What such a file holds; None if it is damaged."""
    data = content.partition(b"\n")[2]
    return data if sealed(data) == content else None


def _content(path: Path) -> bytes | None:
    try:
        return unsealed(path.read_bytes())
    except OSError:
        return None
