"""BatchFolder: a folder of many runs, and the manifest that says what it was made for."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import damaged, held, is_empty, read_document, write_atomically
from slotwise.batch.job import Run
from slotwise.batch.specification import BatchSpec
from slotwise.runs import RunFolder
from slotwise.runs.config import RENAMED
from slotwise.runs.device_data import DataUse

FORMAT = 1


@dataclass(frozen=True)
class BatchFolder:
    """A folder with a run folder for each training, a manifest, tables and figures."""

    path: Path
    made_by: str = "slotwise sweep"  # the command; folders of other commands are refused
    manifest_name: str = "batch.json"
    runs_name: str = "runs"

    @property
    def manifest_path(self) -> Path:
        """Path of the manifest."""
        return self.path / self.manifest_name

    @property
    def runs(self) -> Path:
        """Folder of the run folders."""
        return self.path / self.runs_name

    def run(self, name: str) -> RunFolder:
        """Return the folder of a run, which need not exist yet."""
        return RunFolder(self.runs / name)

    def data_uses(self, names: Iterable[str]) -> list[DataUse]:
        """Return the data of the runs that have been begun, each once."""
        found = (self.run(name) for name in dict.fromkeys(names))
        return [run.read().data for run in found if run.is_run]

    @property
    def is_batch(self) -> bool:
        """Return whether the folder has a manifest."""
        try:
            return self.manifest_path.is_file()
        except OSError:  # a name too long to be a file's
            return False

    @property
    def is_new(self) -> bool:
        """Return whether the folder is missing or empty; raise an InputError if it holds something else."""
        with self._readable():
            if self.manifest_path.is_file():
                return False
            if self.path.exists() and not self.path.is_dir():
                raise InputError("out", self.path, "a folder, and this is a file")
            if self.path.exists() and not is_empty(self.path):
                raise InputError("out", self.path, f"a new or empty folder, or one that {self.made_by} made")
            return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if it is new, and keep other processes out; raise a UserError if one is there.

        If a UserError ends the block before there is a run in a new folder, all that was created is removed.
        """
        with ExitStack() as lock:
            with self._readable():
                was_new = self.is_new
                # The deepest first, so that each is empty when it is removed.
                missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
                if was_new:
                    self.path.mkdir(parents=True, exist_ok=True)
                lock.enter_context(held(self.path, f"another {self.made_by} is using this folder"))
            try:
                yield
            except UserError:
                if was_new and not any(self.runs.glob("*/run.json")):
                    self._remove_created(missing)
                raise

    def _remove_created(self, created: Iterable[Path]) -> None:
        """Remove what a batch wrote into a folder that was new, and the folders that were ``created``."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # another process has written there
            for path in created:
                path.rmdir()

    def write_manifest(self, document: dict[str, Any]) -> None:
        """Write the manifest, unless it says the same already."""
        whole = {"format": FORMAT, "made_by": self.made_by, **document}
        content = json.dumps(whole, indent=2 if len(whole) < 5 else None) + "\n"
        if not self.is_batch or self.manifest_path.read_text(encoding="utf-8") != content:
            with self._readable():
                self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self.manifest_path, content)

    def read_manifest(self) -> dict[str, Any]:
        """Return the document of the manifest; raise a UserError if it is missing or damaged."""
        return read_document(self.manifest_path, FORMAT)

    @contextmanager
    def reading_manifest(self) -> Iterator[None]:
        """Turn the errors of a document with other content than expected into a UserError."""
        try:
            yield
        except UserError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise damaged(self.manifest_path) from None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            allowed = f"a folder that can be read and written ({error.strerror})"
            raise InputError("out", self.path, allowed) from None


def write_spec(folder: BatchFolder, spec: BatchSpec) -> None:
    """Write batch.json: all that results need to know of a specification."""
    axes = {axis.name: axis.values for axis in spec.axes}
    powers = asdict(spec.powers) if spec.powers else None
    points = [[point.case, point.values, point.seed, point.run.name] for point in spec.points]
    folder.write_manifest({"axes": axes, "powers": powers, "digest": _digest(spec.runs), "points": points})


def case_names(folder: BatchFolder) -> dict[str, str]:
    """Return the name of the case of each run, or the names if several cases share it."""
    document, cases = folder.read_manifest(), dict[str, dict[str, None]]()
    with folder.reading_manifest():
        for case, _, _, run in document["points"]:
            cases.setdefault(str(run), {})[str(case)] = None
    return {run: ", ".join(names) for run, names in cases.items()}


def check_same_batch(folder: BatchFolder, spec: BatchSpec) -> None:
    """Raise an InputError for a folder with points that the specification does not have; a batch may grow."""
    if folder.is_new:
        return
    document = folder.read_manifest()
    with folder.reading_manifest():
        points = {(str(case), int(seed), str(run)) for case, _, seed, run in document["points"]}
        digest = document["digest"]
    known = {run for _, _, run in points}
    if points - {(point.case, point.seed, point.run.name) for point in spec.points}:
        raise InputError("out", folder.path, "another folder: this one holds a batch with other points")
    if _digest(run for run in spec.runs if run.name in known) != digest:
        raise InputError("out", folder.path, "another folder: this one holds a batch with other options")


def _digest(runs: Iterable[Run]) -> str:
    """Return a sha256 of names and changed options; a new option with its default value changes nothing.

    Options that were renamed count under their first name, so that folders of earlier versions stay valid.
    """
    first = {new: old for old, new in RENAMED.items()}
    tables = [(run.name, run.config.changed_options()) for run in runs]
    changed = [(name, {first.get(key, key): value for key, value in table.items()}) for name, table in tables]
    # Sorted twice: neither the order of the runs nor that of the options makes another batch.
    lines = sorted((name, json.dumps(table, sort_keys=True)) for name, table in changed)
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()
