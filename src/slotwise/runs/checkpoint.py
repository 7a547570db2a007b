"""Checkpoints: the state of a run in one file that proves itself by its checksum.

A file is the sha256 of what follows, in hexadecimal, a line feed, and a numpy archive without pickles.
The newest two are kept, so that a damaged one costs the rounds since the one before it.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

from slotwise.errors import UserError
from slotwise.files import leftovers, write_atomically
from slotwise.learning import History, Point

KEPT = 2


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, history: History) -> None:
        """Write a checkpoint, then drop the oldest, and those of later rounds: they were found damaged."""
        data = _encode(history)
        digest = hashlib.sha256(data).hexdigest().encode()
        self._write(history.round, digest + b"\n" + data)

    def receive(self, content: bytes) -> None:
        """Keep a checkpoint that was written in another folder, as `newest` gave it."""
        history = _parsed(content)
        if history is None:
            raise UserError(f"{self.folder}: a checkpoint arrived damaged")
        self._write(history.round, content)

    def newest_name(self) -> str | None:
        """The name of the newest file, which is enough to see that there is a new one."""
        return next((path.name for path in self._files()), None)

    def newest(self) -> bytes | None:
        """The newest intact checkpoint as it is on disk, if there is one."""
        contents = (_content(path) for path in self._files())
        return next((content for content in contents if _parsed(content) is not None), None)

    def _write(self, round_number: int, content: bytes) -> None:
        self._make_folder()
        newest = self.folder / f"round-{round_number:09d}.checkpoint"
        write_atomically(newest, content)
        files = self._files()
        for path in [*files[: files.index(newest)], *files[files.index(newest) + KEPT :]]:
            path.unlink(missing_ok=True)

    def load(self) -> tuple[History | None, list[Path]]:
        """The newest intact checkpoint, if any, and the damaged ones that were passed over."""
        damaged: list[Path] = []
        for path in self._files():
            history = _parsed(_content(path))
            if history is not None:
                return history, damaged
            damaged.append(path)
        return None, damaged

    def clear(self) -> None:
        """Remove them all, and what a killed process has left of one."""
        for path in (*self._files(), *leftovers(self.folder)):
            path.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write {self.folder}: {error.strerror or error}") from None

    def _files(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("round-*.checkpoint"), reverse=True)


def _content(path: Path) -> bytes:
    """Of a file; nothing if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _parsed(content: bytes) -> History | None:
    digest, _, data = content.partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != digest:
        return None
    return _decode(data)


def _encode(history: History) -> bytes:
    versions = sorted(history.models)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        round=np.int64(history.round),
        versions=np.array(versions, dtype=np.int64),
        models=np.stack([history.models[v] for v in versions]),
        slots=np.array([p.slot for p in history.points], dtype=np.int64),
        rounds=np.array([p.round for p in history.points], dtype=np.int64),
        losses=np.array([p.loss for p in history.points], dtype=np.float64),
        accuracies=np.array([p.accuracy for p in history.points], dtype=np.float64),
        staleness=np.array([p.staleness for p in history.points], dtype=np.int64),
    )
    return buffer.getvalue()


def _decode(data: bytes) -> History | None:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            names = ("slots", "rounds", "losses", "accuracies", "staleness")
            columns = [archive[name].tolist() for name in names]
            models = dict(zip(archive["versions"].tolist(), archive["models"], strict=True))
            points = tuple(Point(*row) for row in zip(*columns, strict=True))
            return History(points, models, int(archive["round"]))
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError):
        return None
