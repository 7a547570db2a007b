"""RunFolder: what a run leaves behind: run.json, history.csv, model.npz and checkpoints, each whole."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.errors import InputError, UserError
from slotwise.files import held, is_empty, leftovers, write_atomically
from slotwise.learning import Point
from slotwise.runs.checkpoint import Checkpoints
from slotwise.runs.config import RunConfig

Status = Literal["running", "interrupted", "diverged", "finished"]
FORMAT = 1


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run."""

    path: Path

    @classmethod
    def create(cls, path: Path, parameters: RunConfig, *, overwrite: bool = False, **more: Any) -> RunFolder:
        """A new run folder, with ``more`` in its run.json; one that holds something else is refused."""
        folder = cls(path)
        try:
            if folder.is_run and not overwrite:
                raise InputError(
                    "out", path, "a new folder; this run is there already (--resume or --overwrite)"
                )
            path.mkdir(parents=True, exist_ok=True)
            if not folder.is_run and not is_empty(path):
                raise InputError("out", path, "a new or empty folder")
            with folder.held():
                folder._begin(parameters, more)
        except FileExistsError:
            raise InputError("out", path, "a folder, and this is a file") from None
        except OSError as error:
            raise InputError("out", path, f"a folder that can be written ({error.strerror})") from None
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder."""
        folder = cls(path)
        if not folder.is_run:
            raise UserError(
                f"{path}: not a run folder (no run.json), as slotwise train or slotwise serve makes it"
            )
        return folder

    @property
    def is_run(self) -> bool:
        """Whether there is a run here."""
        try:
            return (self.path / "run.json").is_file()
        except OSError:  # a name too long to be a file's
            return False

    def held(self) -> AbstractContextManager[None]:
        """Keep other processes from training here."""
        return held(self.path, "another process is training this run")

    @property
    def checkpoints(self) -> Checkpoints:
        """The states to go on from."""
        return Checkpoints(self.path / "checkpoints")

    @property
    def status(self) -> Status:
        """How the run stands."""
        status: Status = self.description()["status"]
        return status

    def description(self) -> dict[str, Any]:
        """run.json."""
        path = self.path / "run.json"
        try:
            document = dict(json.loads(path.read_text(encoding="utf-8")))
            if document["format"] != FORMAT:
                raise UserError(f"{path}: format {document['format']}, this slotwise reads {FORMAT}")
            if document["status"] not in get_args(Status) or not isinstance(document["parameters"], dict):
                raise ValueError
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: damaged; it must be the JSON that slotwise train wrote") from None
        else:
            return document

    def parameters(self) -> RunConfig:
        """The parameters the run was started with."""
        options = self.description()["parameters"]
        try:
            return RunConfig.from_table(options)
        except UserError as error:
            raise UserError(f"{self.path / 'run.json'}: {error}") from None

    def write_description(self, parameters: RunConfig, status: Status, **results: Any) -> None:
        """Write run.json anew."""
        document = {
            "format": FORMAT,
            "status": status,
            "parameters": parameters.options(),
            **results,
            "versions": _versions(),
        }
        write_atomically(self.path / "run.json", json.dumps(document, indent=2) + "\n")

    def write_points(self, points: Sequence[Point]) -> None:
        """Write history.csv anew. Numbers are written in full: reading them gives the same floats."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(Point._fields)
        rows.writerows(points)
        write_atomically(self.path / "history.csv", text.getvalue())

    def points(self) -> list[Point]:
        """history.csv; empty before the first evaluation was saved.

        Raises:
            UserError: it is damaged, or not there though the run is finished.
        """
        path = self.path / "history.csv"
        if not path.is_file():
            if self.is_run and self.status == "finished":
                raise UserError(
                    f"{path}: missing, though the run is finished; remove the run to train it anew"
                )
            return []
        try:
            with path.open(encoding="utf-8", newline="") as file:
                rows = csv.DictReader(file)
                points = [_point(row) for row in rows]
            if not set(Point._fields) <= set(rows.fieldnames or ()):
                raise ValueError
        except (KeyError, ValueError, TypeError):
            raise UserError(f"{path}: damaged; it must have the columns {', '.join(Point._fields)}") from None
        return points

    def write_model(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Write model.npz: the arrays by name."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_atomically(self.path / "model.npz", buffer.getvalue())

    def _begin(self, parameters: RunConfig, more: Mapping[str, Any]) -> None:
        """Put the new run in the place of an old one, if there is one; other files stay.

        In this order a crash at any moment leaves a run that can be resumed, and no new run.json ever meets
        old checkpoints.
        """
        self.checkpoints.clear()
        self.write_description(parameters, "running", **more)
        for path in (self.path / "history.csv", self.path / "model.npz", *leftovers(self.path)):
            path.unlink(missing_ok=True)


def model_sha256(model: Vector) -> str:
    """The identity of a model: sha256 of its little-endian float32 bytes."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f4").tobytes()).hexdigest()


def _point(row: Mapping[str, str]) -> Point:
    numbers = (int, int, float, float, int)
    return Point(*(kind(row[name]) for kind, name in zip(numbers, Point._fields, strict=True)))


def _versions() -> dict[str, str]:
    names = ("slotwise", "numpy", "numba", "torch")
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
