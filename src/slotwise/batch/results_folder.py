"""Temporary: the former base class of folders, until paper and recommendation use `BatchFolder`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from slotwise.batch.batch_folder import BatchFolder


class ResultsFolder(BatchFolder):
    """A BatchFolder whose names are given by class attributes."""

    maker: ClassVar[str]

    def __init__(self, path: Path) -> None:
        super().__init__(path, made_by=self.maker, manifest_name=type(self).manifest_name)
