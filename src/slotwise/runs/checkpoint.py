"""Checkpoints: the state of a training in a sealed file, a numpy archive without pickles."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from slotwise.errors import UserError
from slotwise.learning import History, Point
from slotwise.runs.sealed import SealedFiles, sealed, unsealed


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = SealedFiles(folder)

    def save(self, history: History) -> None:
        """Write a checkpoint; the newest two stay."""
        self._files.save(history.round, _encode(history))

    def load(self) -> tuple[History | None, list[Path]]:
        """The newest intact checkpoint, if any, and the damaged ones that were passed over."""
        return self._files.load(_decode)

    def clear(self) -> None:
        """Remove them all, and what a killed process has left of one."""
        self._files.clear()

    def receive(self, content: bytes) -> None:
        """Keep a checkpoint that was written in another folder, as `newest` gave it."""
        data = unsealed(content)
        history = None if data is None else _decode(data)
        if history is None or data is None:
            raise UserError(f"{self.folder}: a checkpoint arrived damaged")
        self._files.save(history.round, data)

    def newest_name(self) -> str | None:
        """The name of the newest file, which is enough to see that there is a new one."""
        return next((path.name for path in self._files.paths()), None)

    def newest(self) -> bytes | None:
        """The newest intact checkpoint as it is on disk, if there is one."""
        data, _ = self._files.load(lambda data: None if _decode(data) is None else data)
        return None if data is None else sealed(data)


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
