"""Data sets, and their partition among devices.

Names are imported when they are first used: devices with data of their own load none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotwise.data.cifar10 import cifar10_path, fetch_cifar10, import_cifar10, load_cifar10
    from slotwise.data.data_source import DataFolder, DataOptions, InputScale, PartitionedData
    from slotwise.data.dataset import DataError, Dataset, load_mnist
    from slotwise.data.dataset_cache import dataset_path
    from slotwise.data.download import fetch_dataset, import_dataset
    from slotwise.data.facts import FACTS, TITLES, DataFacts, DataName, FetchedName
    from slotwise.data.npz_folder import load_npz_folder
    from slotwise.data.partitions import (
        PARTITIONS,
        Dirichlet,
        EqualSizes,
        Iid,
        KLabels,
        ListedSizes,
        Natural,
        OneLabel,
        Partition,
        SkewedSizes,
        dirichlet,
        iid,
        k_labels,
        natural,
        one_label,
        skewed_sizes,
    )

_MODULES = {
    "cifar10": ("cifar10_path", "fetch_cifar10", "import_cifar10", "load_cifar10"),
    "data_source": ("DataFolder", "DataOptions", "InputScale", "PartitionedData"),
    "dataset": ("DataError", "Dataset", "load_mnist"),
    "dataset_cache": ("dataset_path",),
    "facts": ("FACTS", "TITLES", "DataFacts", "DataName", "FetchedName"),
    "download": ("fetch_dataset", "import_dataset"),
    "npz_folder": ("load_npz_folder",),
    "partitions": (
        *("PARTITIONS", "Partition", "OneLabel", "KLabels", "Dirichlet", "Iid", "Natural"),
        *("EqualSizes", "SkewedSizes", "ListedSizes"),
        *("dirichlet", "iid", "k_labels", "natural", "one_label", "skewed_sizes"),
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "FACTS", "PARTITIONS", "TITLES", "DataError", "DataFacts", "DataFolder", "DataName", "DataOptions",
    "Dataset", "Dirichlet", "EqualSizes", "FetchedName", "Iid", "InputScale", "KLabels", "ListedSizes",
    "Natural", "OneLabel", "Partition", "PartitionedData", "SkewedSizes", "cifar10_path", "dataset_path",
    "dirichlet", "fetch_cifar10", "fetch_dataset", "iid", "import_cifar10", "import_dataset", "k_labels",
    "load_cifar10", "load_mnist", "load_npz_folder", "natural", "one_label", "skewed_sizes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slotwise.data' has no attribute {name!r}")
    value = getattr(import_module(f"slotwise.data.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
