"""Checkpoints of a run: the state of a training, in files that are verified by their checksum.

A sealed file is the sha256 of its content in hexadecimal, a line feed, and the content. The newest two are
kept, so a damaged file costs only the work since the one before it. The content of a checkpoint is a numpy
archive without pickles.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import RuleState
from slotwise.base.errors import UserError
from slotwise.base.files import cannot_write, write_atomically
from slotwise.learning import History, Point
from slotwise.learning.task import COLUMNS, DeviceState, metric_names

KEPT = 2
POINT_ARRAYS = ("slots", "rounds", "losses", "accuracies", "staleness")  # in the order of COLUMNS
# Before the names of arrays.
RULE_STATE, DEVICE_STATE, METRIC, LEARNING = "rule_state.", "device_state.", "metric.", "learning."
State = TypeVar("State")


class SealedFiles:
    """States of one run in a folder, numbered by rounds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, round_number: int, data: bytes) -> None:
        """Write a state, then remove old ones, and those of later rounds: they were found damaged."""
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        newest = self.folder / f"round-{round_number:09d}.checkpoint"
        # Old files are removed after this: a crash in between leaves one too many, never none.
        write_atomically(newest, sealed(data))
        # Files before the newest one are of later rounds. `load` would prefer them after a crash.
        files = self.paths()
        for path in [*files[: files.index(newest)], *files[files.index(newest) + KEPT :]]:
            if not path.is_dir():  # a damaged one that is a folder stays: what it holds is not ours
                path.unlink(missing_ok=True)

    def load(self, decode: Callable[[bytes], State | None]) -> tuple[State | None, list[Path]]:
        """Return the newest intact state, if any, and the damaged files that were skipped."""
        damaged: list[Path] = []
        for path in self.paths():
            try:
                data = unsealed(path.read_bytes())
            except OSError:
                data = None
            # A file that is intact and cannot be decoded counts as damaged, too.
            state = None if data is None else decode(data)
            if state is not None:
                return state, damaged
            damaged.append(path)
        return None, damaged

    def clear(self) -> None:
        """Remove all states; a UserError if one cannot be, before any is removed."""
        self.refuse_folders()
        for path in self.paths():
            path.unlink(missing_ok=True)

    def refuse_folders(self) -> None:
        """Raise a UserError if a folder has the name of a state, which could not be written then."""
        for path in self.paths():
            if path.is_dir():
                raise UserError(f"{path}: must be a file, and is a folder; remove it")

    def paths(self) -> list[Path]:
        """Return the files, newest first."""
        # The numbers have nine digits, so names sort as rounds do.
        return sorted(self.folder.glob("round-*.checkpoint"), reverse=True)


def sealed(data: bytes) -> bytes:
    """Return ``data`` with its checksum in front."""
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def unsealed(content: bytes) -> bytes | None:
    """Return the data of a sealed file; None if it is damaged."""
    data = content.partition(b"\n")[2]
    return data if sealed(data) == content else None


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = SealedFiles(folder)

    def save(self, history: History) -> None:
        """Write a checkpoint; keep the newest two."""
        self._files.save(history.rounds, _encode(history))

    def load(self) -> tuple[History | None, list[Path]]:
        """Return the newest intact checkpoint, if any, and the damaged files that were skipped."""
        return self._files.load(_decode)

    def clear(self) -> None:
        """Remove all checkpoints; a UserError if one cannot be, before any is removed."""
        self._files.clear()

    def refuse_folders(self) -> None:
        """Raise a UserError if a folder has the name of a checkpoint."""
        self._files.refuse_folders()

    def receive(self, content: bytes) -> None:
        """Save a checkpoint that `newest` read in another folder."""
        data = unsealed(content)
        history = None if data is None else _decode(data)
        if history is None or data is None:
            raise UserError(f"{self.folder}: a checkpoint arrived damaged")
        self._files.save(history.rounds, data)

    def newest_name(self) -> str | None:
        """Return the name of the newest file: it changes with every checkpoint."""
        return next((path.name for path in self._files.paths()), None)

    def newest(self) -> bytes | None:
        """Return the newest intact checkpoint as it is on disk, if there is one."""
        data, _ = self._files.load(lambda data: None if _decode(data) is None else data)
        return None if data is None else sealed(data)


def rule_state_in(archive: Mapping[str, NDArray[Any]]) -> RuleState:
    """Return the arrays of an aggregation rule in a numpy archive."""
    return _arrays_in(archive, RULE_STATE)


def learning_in(archive: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Return what a checkpoint has of the learning, for decisions by it."""
    return _arrays_in(archive, LEARNING)


def _arrays_in(archive: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): archive[name] for name in archive if name.startswith(prefix)}


def _device_states_in(archive: Mapping[str, NDArray[Any]]) -> dict[int, DeviceState]:
    """Return the arrays that devices keep; their names begin with the number of the device."""
    found: dict[int, dict[str, NDArray[Any]]] = {}
    for key in archive:
        if key.startswith(DEVICE_STATE):
            device, _, name = key.removeprefix(DEVICE_STATE).partition(".")
            found.setdefault(int(device), {})[name] = archive[key]
    return dict(found)


def _encode(history: History) -> bytes:
    versions = sorted(history.models)
    buffer = io.BytesIO()
    more: dict[str, Any] = {RULE_STATE + name: array for name, array in history.rule_state.items()}
    more |= {LEARNING + name: array for name, array in history.learning.items()}
    for device, state in history.device_states.items():
        more |= {f"{DEVICE_STATE}{device}.{name}": array for name, array in state.items()}
    for name, (column, kind) in zip(POINT_ARRAYS, COLUMNS.items(), strict=True):
        more[name] = np.array([getattr(point, column) for point in history.points], dtype=kind)
    for name in metric_names([point.metrics for point in history.points]):
        more[METRIC + name] = np.array([p.metrics.get(name, np.nan) for p in history.points])
    np.savez(
        buffer,
        round=np.int64(history.rounds),
        versions=np.array(versions, dtype=np.int64),
        models=np.stack([history.models[v] for v in versions]),
        **more,
    )
    return buffer.getvalue()


def _decode(data: bytes) -> History | None:
    try:
        # Without pickles, a checkpoint from elsewhere cannot run code.
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            columns = [archive[name].tolist() for name in POINT_ARRAYS]
            models = dict(zip(archive["versions"].tolist(), archive["models"], strict=True))
            metrics = {
                name.removeprefix(METRIC): archive[name].tolist()
                for name in archive
                if name.startswith(METRIC)
            }
            points = tuple(
                Point(*row)._replace(metrics={name: values[number] for name, values in metrics.items()})
                for number, row in enumerate(zip(*columns, strict=True))
            )
            states = _device_states_in(archive)
            learning = learning_in(archive)
            return History(points, models, int(archive["round"]), rule_state_in(archive), states, learning)
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError):
        return None
