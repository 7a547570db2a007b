"""ResultsFolder: a folder of many runs that one command makes, keeps and goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slotwise.errors import InputError
from slotwise.files import held, leftovers
from slotwise.runs import RunFolder


@dataclass(frozen=True)
class ResultsFolder:
    """runs/ holds a run folder for each training; the manifest says whose folder it is."""

    path: Path
    maker: ClassVar[str]
    manifest_name: ClassVar[str]

    @property
    def manifest_path(self) -> Path:
        """The file that says what the folder was made with."""
        return self.path / self.manifest_name

    @property
    def runs(self) -> Path:
        """Where the run folders are."""
        return self.path / "runs"

    def run(self, name: str) -> RunFolder:
        """The folder of a training, whether or not it is there yet."""
        return RunFolder(self.runs / name)

    @property
    def is_new(self) -> bool:
        """Whether nothing has been made here yet.

        Raises:
            InputError: it is there and somebody else's, or cannot be looked at.
        """
        with self._usable():
            if self.manifest_path.is_file():
                return False
            if self.path.exists() and not self.path.is_dir():
                raise InputError("out", self.path, "a folder, and this is a file")
            if self.path.exists() and set(self.path.iterdir()) - set(leftovers(self.path)):
                raise InputError("out", self.path, f"a new or empty folder, or one that {self.maker} made")
            return True

    def make(self) -> None:
        """Make the folder, if it is not there."""
        with self._usable():
            self.path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder if it is new, and keep a second process of the same command out of it.

        Raises:
            InputError: the folder is somebody else's, or cannot be made.
        """
        if self.is_new:
            self.make()
        with ExitStack() as lock:
            with self._usable():
                lock.enter_context(held(self.path, f"another {self.maker} is at work here"))
            yield

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Whatever the system says against the folder is the user's to mend."""
        try:
            yield
        except OSError as error:
            allowed = f"a folder that can be read and written ({error.strerror})"
            raise InputError("out", self.path, allowed) from None
