"""HubData: a classification set of the Hugging Face Hub, by its name there."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from slotwise.base.errors import InputError
from slotwise.data.dataset import DataError, Dataset
from slotwise.data.dataset_cache import cache_folder, read_dataset, stored_facts
from slotwise.data.facts import DataFacts
from slotwise.options import Range
from slotwise.options.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class HubData:
    """A set of images or of a table with labels. It is fetched once, with the package `datasets`.

    Attributes:
        name: Name on the Hub, as in ylecun/mnist.
        hub_subset: Subset of a data set of the Hugging Face Hub that has several.
        label_column: Column of the labels. Default: the only one of classes, or one with a usual name.
        input_columns: Columns of the inputs, separated by commas: one of images, or several of numbers or
            words. Default: the only one of images, or all that are no text.
        owner_column: Column of the natural owners of the samples, for the partition natural.
        test_split: Split of the test samples. Default: test or validation; if there is none, each tenth
            training sample.
        image_size: Height and width to which images are resized. Default: as they are.
    """

    name: str
    hub_subset: str | None = None
    label_column: str | None = None
    input_columns: str | None = None
    owner_column: str | None = None
    test_split: str | None = None
    image_size: Annotated[int, Range(least=1, most=1024)] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", self.name, re.ASCII):
            raise InputError("data", self.title, "hf: and a name on the Hub, as in hf:ylecun/mnist")

    @property
    def title(self) -> str:
        """The name with its beginning, as in ``hf:ylecun/mnist``."""
        return f"hf:{self.name}"

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
        return cache_folder() / f"hf-{self.name.replace('/', '--')}{digest}.npz"

    @property
    def command(self) -> str:
        """The command that gets it."""
        flags = [f" --{name.replace('_', '-')} {value}" for name, value in self.options.items()]
        return f"slotwise data fetch {self.title}{''.join(flags)}"

    @property
    def missing_notice(self) -> str:
        """Sentence for a data set that has not been fetched."""
        return f"{self.title} is not on this machine: {self.command}"

    @property
    def facts(self) -> DataFacts:
        """Shape and classes, or a DataError if it was not fetched."""
        found = stored_facts(self.path)
        if found is None:
            raise DataError(self.missing_notice)
        owners = None if self.owner_column is None else f"{self.owner_column} values"
        mean = found.samples // max(1, found.owners)
        return DataFacts(self.title, found.input_shape, found.classes, found.samples, owners, mean)

    def load(self) -> Dataset:
        """Return the data set as kept on this machine, or raise a DataError that says how to get it."""
        if not self.path.is_file():
            raise DataError(self.missing_notice)
        return read_dataset(self.path)
