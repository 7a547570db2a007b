"""The command data: the data sets on this machine, and pictures of their partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, Parameter

from slotwise.base.errors import InputError
from slotwise.base.files import check_writable, write_atomically
from slotwise.cli.flags import AsJson, Quiet, command, output, run_flags
from slotwise.data import (
    TITLES,
    Dataset,
    FetchedName,
    NamedData,
    PartitionedData,
    dataset_path,
    fetch_dataset,
    import_dataset,
)
from slotwise.data.data_source import DATA
from slotwise.options import choose, declared
from slotwise.report.partition_figure import partition_figure, partition_text
from slotwise.report.plotting import picture_kind, save_figure
from slotwise.report.tables import table_console
from slotwise.runs.config import RunConfig
from slotwise.runs.device_data import device_samples

OTHERS = ", ".join(TITLES[name] for name in get_args(FetchedName))
HELP = (
    "Get data sets, and show who holds which samples. MNIST comes with slotwise; others are fetched or "
    f"imported once: {OTHERS}."
)
data = App(name="data", help=HELP)

NAME = Parameter(help="The data set: its short name, hf:NAME or torchvision:NAME.")
FILES = Parameter(help="Folder with the published files; for CIFAR and EMNIST also the archive.")
PICTURE = output("File for the picture: .png, .svg or .pdf.")
NAMED = {name for kind in DATA.families.values() for name in declared(kind)}
READ = tuple(flag for flag in run_flags("dataset") if flag.name in NAMED)
SHOWN = (
    *run_flags("channel", only=("devices",)),
    *run_flags("dataset"),
    *run_flags("seed"),
)


@command(*READ)
def fetch(options: dict[str, Any], name: Annotated[str, NAME], /, *, quiet: Quiet = False) -> None:
    """Download a data set.

    Those of the Hugging Face Hub need `pip install 'slotwise[datasets]'`, those of torchvision torchvision.
    """
    chosen = _chosen(name, options)
    if isinstance(chosen, NamedData):
        _report(chosen.fetch(progress=not quiet), chosen.path)
    else:
        _report(fetch_dataset(chosen, progress=not quiet), dataset_path(chosen))


@command(*READ)
def import_(options: dict[str, Any], name: Annotated[str, NAME], path: Annotated[Path, FILES], /) -> None:
    """Import a data set from files on this machine."""
    chosen = _chosen(name, options)
    if isinstance(chosen, NamedData):
        _report(chosen.import_from(path), chosen.path)
    else:
        _report(import_dataset(chosen, path), dataset_path(chosen))


def _chosen(name: str, options: dict[str, Any]) -> Any:
    """Return the data set that a name and the options of a set by name mean."""
    chosen = choose(DATA, {DATA.option: name, **options})
    if chosen == "mnist":
        raise InputError("data", name, "another data set: MNIST comes with slotwise")
    return chosen


def _report(dataset: Dataset, path: Path) -> None:
    train, test = len(dataset.train_targets), len(dataset.test_targets)
    owned = "" if dataset.owners is None else f" of {len(dataset.owner_rows()):,} owners"
    print(f"{dataset.name}: {train} training samples{owned} and {test} test samples, verified, in {path}")


@command(*SHOWN)
def show(
    options: dict[str, Any], *, out: Annotated[Path | None, PICTURE] = None, as_json: AsJson = False
) -> None:
    """Show a partition: how many samples of each label each device of a run would hold.

    The same options and seed give the same samples as in `slotwise train`.
    """
    kind = "" if out is None else picture_kind(out)
    if out is not None:
        check_writable(out)
    config = RunConfig.from_options({"group_size": 1, **options})
    counts = device_samples(config).label_counts(_title(config))
    if as_json:
        print(json.dumps({name: column.tolist() for name, column in counts.columns().items()}))
    else:
        console = table_console()
        console.print(partition_text(counts, console.width), highlight=False, markup=False, soft_wrap=True)
    if out is not None:
        write_atomically(out, save_figure(partition_figure(counts), kind))


def _title(config: RunConfig) -> str:
    """Return the data set, the partition with its own options, and the number of devices."""
    dataset, devices = config.dataset, config.channel.devices
    parts = [dataset.facts.title, f"{devices:,} device{'s' * (devices > 1)}"]
    if isinstance(dataset, PartitionedData):
        parts.insert(1, dataset.partition_text)
    return ", ".join(parts)


for function, name in ((fetch, "fetch"), (import_, "import"), (show, "show")):
    data.command(function, name=name)
