"""RunFolder: the files of a run: run.json, history.csv, model.npz and checkpoints, written atomically."""

from __future__ import annotations

import hashlib
import io
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.base.files import (
    held,
    is_empty,
    leftovers,
    write_atomically,
    write_csv,
    write_document,
)
from slotwise.base.machine import processor, source_commit
from slotwise.learning import History, Point
from slotwise.learning.task import COLUMNS, metric_names
from slotwise.runs.checkpoints import Checkpoints
from slotwise.runs.config import RunConfig
from slotwise.runs.device_data import DataUse, changed_sources
from slotwise.runs.run_timeline import TIMELINE
from slotwise.runs.saved_run import (
    COMPLETE,
    FORMAT,
    SavedRun,
    Status,
    has_run,
    read_description,
    read_points,
    refuse_no_run,
)
from slotwise.schedule import Timeline

TRACKER_FILES = "tracking-*.json"


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run."""

    path: Path

    @classmethod
    def create(
        cls, path: Path | str, config: RunConfig, *, overwrite: bool = False, **more: Any
    ) -> RunFolder:
        """Create a run folder, with ``more`` in its run.json; refuse a folder with other files."""
        with cls.creating(path, config, overwrite=overwrite, **more) as folder:
            return folder

    @classmethod
    @contextmanager
    def creating(
        cls, path: Path | str, config: RunConfig, *, overwrite: bool = False, **more: Any
    ) -> Iterator[RunFolder]:
        """Create a run folder as `create` does; it stays locked until the end of the block."""
        folder = cls.check_new(path, overwrite=overwrite)
        with ExitStack() as lock:
            try:
                folder.path.mkdir(parents=True, exist_ok=True)
                lock.enter_context(folder.held())
                if not overwrite:
                    folder._refuse_a_run()  # another process may have made one since `check_new`
                folder._begin(config, more)
            except OSError as error:
                raise InputError("out", path, f"a folder that can be written ({error.strerror})") from None
            yield folder

    def _begin(self, config: RunConfig, more: Mapping[str, Any]) -> None:
        """Write run.json, and replace an old run, if there is one; keep foreign files.

        In this order a crash at any moment leaves a run that can be resumed, and a new run.json never meets
        old checkpoints.
        """
        self.checkpoints.clear()
        self.write_description(config, "running", is_new=True, **more)
        trackers = self.path.glob(TRACKER_FILES)  # a new run is a new one for trackers, too
        for old in (self.path / "history.csv", self.path / "model.npz", *trackers):
            old.unlink(missing_ok=True)

    def _refuse_a_run(self) -> None:
        if self.is_run:
            raise InputError("out", self.path, "a new folder; it contains a run (resume or overwrite it)")

    @classmethod
    def check_new(cls, path: Path | str, *, overwrite: bool = False) -> RunFolder:
        """Return the folder that `create` would make, and write nothing; an InputError if it cannot."""
        path = Path(path)
        folder = cls(path)
        if not overwrite:
            folder._refuse_a_run()
        try:
            if path.exists() and not path.is_dir():
                raise InputError("out", path, "a folder, and this is a file")
            if path.is_dir() and not folder.is_run and not is_empty(path):
                raise InputError("out", path, "a new or empty folder")
        except OSError as error:
            raise InputError("out", path, f"a folder that can be written ({error.strerror})") from None
        if folder.is_run:
            # The lock, released at once, tells whether another process trains this run.
            with folder.held():
                return folder
        # The nearest folder that exists decides whether those below it can be made.
        parent = next(parent for parent in path.absolute().parents if parent.exists())
        if not parent.is_dir() or not (os.access(path if path.exists() else parent, os.W_OK)):
            raise InputError("out", path, f"a folder that can be written, and {parent} is not one")
        return folder

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Return an existing run folder."""
        refuse_no_run(Path(path))
        return cls(Path(path))

    @property
    def is_run(self) -> bool:
        """True if the folder contains a run."""
        return has_run(self.path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder, so that no other process trains this run; remove what killed ones were writing."""
        with held(self.path, "another process is training this run"):
            for path in (*leftovers(self.path), *leftovers(self.checkpoints.folder)):
                with suppress(OSError):
                    path.unlink()
            yield

    @property
    def checkpoints(self) -> Checkpoints:
        """The states to resume from."""
        return Checkpoints(self.path / "checkpoints")

    @property
    def status(self) -> Status:
        """Status of the run, as in run.json."""
        status: Status = self.description()["status"]
        return status

    def description(self) -> dict[str, Any]:
        """Return the content of run.json."""
        return read_description(self.path)

    def read(self) -> SavedRun:
        """Return what the folder says; a UserError if it is damaged or contains no run."""
        return SavedRun.read(self.path)

    def parameters(self) -> RunConfig:
        """Return the configuration of the run."""
        return self.read().config

    def refuse_other_options(self, config: RunConfig) -> None:
        """Raise a UserError if the run was made with another configuration."""
        if self.parameters() != config:
            raise UserError(f"{self.path}: made with other options; remove it to train it again")

    def refuse_changed_data(self, config: RunConfig) -> None:
        """Raise a UserError if the data set is not the one that the run began with; it is read for that."""
        source = config.dataset.source
        if changed_sources([self.read().data, DataUse("", source, config.dataset.content_hash)]):
            changed = f"the data set {source} has changed since the run began"
            raise UserError(f"{self.path}: {changed}; start a new one")

    def write_description(
        self, config: RunConfig, status: Status, *, is_new: bool = False, **results: Any
    ) -> None:
        """Write run.json with the given results; the hash of the data is that of the start of the run."""
        machine = f"{processor()}, {platform.system()} {platform.machine()}"
        versions = {"python": platform.python_version(), "machine": machine, **_package_versions()}
        if commit := source_commit():
            versions["commit"] = commit
        head: dict[str, Any] = {"format": FORMAT, "status": status, "parameters": config.options()}
        if attackers := config.attackers():
            head["attackers"] = attackers
        # A run that is resumed keeps the hash of its first data: the files may have changed since.
        is_new = is_new or not self.is_run
        data_sha256 = config.dataset.content_hash if is_new else self.description().get("data_sha256")
        if data_sha256 is not None:
            head["data_sha256"] = data_sha256
        write_document(self.path / "run.json", {**head, **results, "versions": versions})

    def write_points(self, points: Sequence[Point]) -> None:
        """Write history.csv, one line an evaluation."""
        names = metric_names([point.metrics for point in points])
        rows = [(*point[:-1], *(point.metrics.get(name, nan) for name in names)) for point in points]
        write_csv(self.path / "history.csv", (*COLUMNS, *names), rows)

    def points(self) -> list[Point]:
        """Read history.csv; there are no points before the first checkpoint."""
        return read_points(self.path, is_finished=self.is_run and self.status in COMPLETE)

    def history(self) -> History:
        """Return the points of the run, and its models if it still has a checkpoint."""
        saved, _ = self.checkpoints.load()
        return saved or History(tuple(self.points()), {}, int(self.description().get("rounds", 0)))

    def write_timeline(self, timeline: Timeline) -> None:
        """Write timeline.json: a schedule that was decided while it was trained."""
        write_atomically(self.path / TIMELINE, timeline.to_json())

    def write_model(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Write model.npz: the arrays by name."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_atomically(self.path / "model.npz", buffer.getvalue())


@cache
def _package_versions() -> Mapping[str, str]:
    """Return the versions of the packages that compute; reading them takes longer than writing the file."""
    versions = {}
    for name in ("slotwise", "numpy", "numba", "torch"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def model_sha256(model: Vector) -> str:
    """Return the identity of a model: sha256 of its little-endian float32 bytes."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f4").tobytes()).hexdigest()
