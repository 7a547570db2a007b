"""Data sets, and their partition among devices."""

from slotwise.data.cifar10 import cifar10_path, fetch_cifar10, import_cifar10, load_cifar10
from slotwise.data.dataset import DataError, Dataset, load_mnist
from slotwise.data.dataset_config import (
    IMAGE_SHAPES,
    TITLES,
    DataName,
    DatasetConfig,
    PartitionName,
    dirichlet,
    iid,
    k_labels,
    one_label,
)

__all__ = [
    "IMAGE_SHAPES", "TITLES", "DataError", "DataName", "Dataset", "DatasetConfig", "PartitionName",
    "cifar10_path", "dirichlet", "fetch_cifar10", "iid", "import_cifar10", "k_labels", "load_cifar10",
    "load_mnist", "one_label",
]  # fmt: skip
