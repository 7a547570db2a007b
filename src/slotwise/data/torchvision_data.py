"""TorchvisionData: an image classification set of torchvision, by the name of its class there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from slotwise.data.dataset import Dataset
from slotwise.data.named_data import NamedData
from slotwise.options import Range


@dataclass(frozen=True, kw_only=True)
class TorchvisionData(NamedData):
    """A set of images with labels. It is fetched once, with the package torchvision.

    Attributes:
        name: Name of a class of torchvision.datasets, as in FashionMNIST.
        torchvision_split: Parameter split of a class of torchvision: its variant, as letters of EMNIST, or
            the split of the training samples. Default: train, or the default of the class.
        test_split: Split of the test samples. Default: test or validation; if there is none, each tenth
            training sample.
        image_size: Height and width to which images are resized. Default: as they are.
    """

    beginning: ClassVar[str] = "torchvision"
    allowed: ClassVar[str] = (
        "torchvision: and a class of torchvision.datasets, as in torchvision:FashionMNIST"
    )
    torchvision_split: str | None = None
    test_split: str | None = None
    image_size: Annotated[int, Range(least=1, most=1024)] | None = None

    @staticmethod
    def is_name(text: str) -> bool:
        """Return whether a text could be the name of a class."""
        return text.isascii() and text.isidentifier()

    def download(self, progress: bool) -> Dataset:
        """Return the data set as torchvision downloads it."""
        from slotwise.data.torchvision_reader import download_torchvision  # noqa: PLC0415 - slow imports

        return download_torchvision(self, progress)

    def read(self, folder: Path | str) -> Dataset:
        """Return the data set in a folder that torchvision takes as its root."""
        from slotwise.data.torchvision_reader import read_torchvision  # noqa: PLC0415 - slow imports

        return read_torchvision(self, Path(folder))
