"""Tracker: the observer that all trackers share. It decides which points are logged, and when to give up.

Every point is logged once, in order, with its slot as the step: the slot is the time of the channel, so runs
of different schedules and group sizes can be compared on it, while their rounds last differently long.

A small file in the run folder holds the tracker's own id of the run and the slot of the last logged point, so
a resumed run continues there: points after the last checkpoint come again and are skipped, and points of the
checkpoint that the tracker has not seen are logged first.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from math import isnan
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from slotwise.base.errors import UserError
from slotwise.base.extras import pip_command, require
from slotwise.base.files import read_document, write_document
from slotwise.learning.task import COLUMNS, TRACKED_NAMES
from slotwise.runs.session import Observer, RunEnd

if TYPE_CHECKING:
    from pathlib import Path

    from slotwise.learning import History, Point
    from slotwise.runs import RunConfig, RunFolder
    from slotwise.schedule import Timeline

FORMAT = 1
NOTHING = -1  # the last logged slot before the first point, which is in slot 0
PROJECT = "slotwise"

Notify = Callable[[str], None]


class Tracker(Observer, ABC):
    """Base class of the trackers; subclasses write to one library.

    Args:
        project: Project in which the library shows the run. Default: slotwise.
        name: Name under which it does. Default: the name of the run folder.
        notify: Is told once if the library fails while the run continues. Default: a Python warning.

    Attributes:
        library: Name of the library and of slotwise's extra that installs it.

    Raises:
        UserError: the library is missing or cannot be used.
    """

    library: ClassVar[str]

    def __init__(
        self, *, project: str | None = None, name: str | None = None, notify: Notify | None = None
    ) -> None:
        self._given = {"project": project, "name": name}
        self._notify = notify or _warn
        self._file: Path | None = None
        self.state: dict[str, Any] = {}
        """What is kept in the run folder: of this class the last logged slot, and what a subclass adds."""
        self._logged = NOTHING
        self._waiting: list[Point] = []
        self._has_begun = self._has_failed = False
        self.connect()

    # What a subclass does

    def connect(self) -> None:
        """Import the library, and refuse what it cannot do before anything is written."""

    @abstractmethod
    def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
        """Begin or continue the run of the library; return the slot of the last point that it has."""

    @abstractmethod
    def log(self, values: Mapping[str, float], slot: int) -> None:
        """Log the values of one point."""

    @abstractmethod
    def end(self, status: RunEnd) -> None:
        """Write what is left and end the run of the library."""

    # Callbacks

    def run_opened(self, folder: RunFolder, config: RunConfig) -> None:
        """Begin or continue the run of the library."""
        self._file = folder.path / f"tracking-{self.library}.json"
        new = {"slot": NOTHING}
        self.state = read_document(self._file, FORMAT, "slot") if self._file.exists() else new
        for key, value in self._given.items():
            known = self.state.get(key, value)
            if value is not None and value != known:
                raise UserError(f"{self._file}: the {key} is {known} already; it cannot become {value}")
        self._waiting, self._has_begun, self._has_failed = [], False, False
        with self._guarded("could not start, this run is not tracked"):
            self._logged = self.begin(folder, config.options())
            self._has_begun = True
            self._save()

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:  # noqa: ARG002
        """Log the points of a resumed run that the library does not have."""
        if self._file is None:
            raise UserError(f"the {self.library} tracker needs a run folder: use run or resume")
        for point in resumed.points if resumed else ():
            self.evaluated(point)

    def evaluated(self, point: Point) -> None:
        """Log a point, unless the library has it."""
        self._waiting.append(point)
        if not self._has_failed:
            with self._guarded("failed, what is missing is logged at the end if possible"):
                self._log_waiting()

    def run_ended(self, status: RunEnd) -> None:
        """Log what could not be logged before, and end the run of the library."""
        if self._has_begun:
            with self._guarded("failed, the end of this run is not tracked"):
                try:
                    self._log_waiting()
                finally:
                    self.end(status)
                    self._save()
        self._file = None

    def _log_waiting(self) -> None:
        while self._waiting:
            point = self._waiting[0]
            if point.slot > self._logged:
                self.log(values_of(point), point.slot)
                self._logged = point.slot
                self._save()
            del self._waiting[0]

    def _save(self) -> None:
        if self._file is not None:
            write_document(self._file, {**self.state, "format": FORMAT, "slot": self._logged})

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Turn an error of the library into a notice, once; the training continues."""
        try:
            yield
        except Exception as error:
            if not self._has_failed:
                self._notify(f"{self.library} {what}: {one_line(error)}; the training continues")
            self._has_failed = True


def values_of(point: Point) -> dict[str, float]:
    """Return what is logged of a point, by name: its own fields and further metrics."""
    own = {TRACKED_NAMES.get(name, name): getattr(point, name) for name in COLUMNS}
    if isnan(point.accuracy):  # the task has none
        del own[TRACKED_NAMES["accuracy"]]
    return {**point.metrics, **own}


def import_library(module: str) -> ModuleType:
    """Import a module of a tracker's library, or raise a UserError that names the extra to install."""
    library = module.partition(".")[0]
    require(library)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:  # of a package that it needs itself
        raise UserError(f"{library} cannot be imported: {error}; {pip_command(library)}") from None


def one_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
