"""NamedData: data sets of a hub or a library, by their names there."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from slotwise.base.errors import InputError
from slotwise.data.dataset import DataError, Dataset
from slotwise.data.dataset_cache import cache_folder, read_dataset, stored_facts, write_dataset
from slotwise.data.facts import DataFacts
from slotwise.options.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class NamedData(ABC):
    """A classification set that is read once, and from then on kept as arrays in one file.

    Attributes:
        name: Name there.
    """

    beginning: ClassVar[str]  # of the title, as ``hf`` in ``hf:ylecun/mnist``
    allowed: ClassVar[str]  # how a title looks
    name: str

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.is_name(self.name):
            raise InputError("data", self.title, self.allowed)

    @staticmethod
    @abstractmethod
    def is_name(text: str) -> bool:
        """Return whether a text could be a name."""

    @abstractmethod
    def download(self, progress: bool) -> Dataset:
        """Return the data set as it is published, or raise a UserError that says what lacks."""

    @abstractmethod
    def read(self, folder: Path | str) -> Dataset:
        """Return the data set in a folder on this machine, or raise a UserError that says what lacks."""

    @property
    def owners(self) -> str | None:
        """What the natural owners of samples are; None if they are not known."""
        return None

    @property
    def title(self) -> str:
        """The name with its beginning, as in ``hf:ylecun/mnist``."""
        return f"{self.beginning}:{self.name}"

    @property
    def options(self) -> dict[str, str | int]:
        """The options that are given: they decide what is read."""
        given = {one.name: getattr(self, one.name) for one in fields(self)[1:]}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def path(self) -> Path:
        """The file that it is kept in on this machine, whether or not it exists."""
        text = json.dumps(self.options, sort_keys=True)
        digest = f"-{hashlib.sha256(text.encode()).hexdigest()[:12]}" if self.options else ""
        return cache_folder() / f"{self.beginning}-{self.name.replace('/', '--')}{digest}.npz"

    @property
    def missing_notice(self) -> str:
        """Sentence for a data set that has not been fetched."""
        flags = [f" --{name.replace('_', '-')} {value}" for name, value in self.options.items()]
        return f"{self.title} is not on this machine: slotwise data fetch {self.title}{''.join(flags)}"

    @property
    def facts(self) -> DataFacts:
        """Shape and classes, or a DataError if it was not fetched."""
        found = stored_facts(self.path)
        if found is None:
            raise DataError(self.missing_notice)
        mean = found.samples // max(1, found.owners)
        return DataFacts(self.title, found.input_shape, found.classes, found.samples, self.owners, mean)

    def load(self) -> Dataset:
        """Return the data set as kept on this machine, or raise a DataError that says how to get it."""
        if not self.path.is_file():
            raise DataError(self.missing_notice)
        return read_dataset(self.path)

    def fetch(self, progress: bool = True) -> Dataset:
        """Download the data set and keep it, unless an intact copy is kept already.

        Raises:
            UserError: there is no such data set, it is no classification, or it cannot be reached; or the
                package that reads it is not installed.
        """
        try:
            return self.load()
        except DataError:
            return self._keep(self.download(progress))

    def import_from(self, folder: Path | str) -> Dataset:
        """Read a local copy of the data set and keep it."""
        path = Path(folder)
        if not path.is_dir():
            raise DataError(f"{path} is not a folder, must be one with the files of {self.title}")
        return self._keep(self.read(path.resolve()))

    def _keep(self, dataset: Dataset) -> Dataset:
        write_dataset(dataset, self.path)
        return dataset
