"""HubData: a classification set of the Hugging Face Hub, by its name there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from slotwise.data.dataset import Dataset
from slotwise.data.named_data import NamedData
from slotwise.options import Range


@dataclass(frozen=True, kw_only=True)
class HubData(NamedData):
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

    beginning: ClassVar[str] = "hf"
    allowed: ClassVar[str] = "hf: and a name on the Hub, as in hf:ylecun/mnist"
    hub_subset: str | None = None
    label_column: str | None = None
    input_columns: str | None = None
    owner_column: str | None = None
    test_split: str | None = None
    image_size: Annotated[int, Range(least=1, most=1024)] | None = None

    @staticmethod
    def is_name(text: str) -> bool:
        """Return whether a text could be a name on the Hub."""
        return re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", text, re.ASCII) is not None

    @property
    def owners(self) -> str | None:
        """The values of the column of owners."""
        return None if self.owner_column is None else f"{self.owner_column} values"

    def download(self, progress: bool) -> Dataset:
        """Return the data set on the Hub."""
        from slotwise.data.hugging_face import download_hub_data  # noqa: PLC0415 - brings slow imports

        return download_hub_data(self, progress)

    def read(self, folder: Path | str) -> Dataset:
        """Return what parquet, CSV or JSON files, folders of images, or files of `save_to_disk` hold."""
        from slotwise.data.hugging_face import read_hub_folder  # noqa: PLC0415 - brings slow imports

        return read_hub_folder(self, Path(folder))
