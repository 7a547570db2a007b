"""Data sets and how they are divided among devices."""

from slotwise.data.cifar10 import cifar10_path, fetch_cifar10, import_cifar10, load_cifar10
from slotwise.data.dataset import Dataset
from slotwise.data.dataset_config import IMAGE_SHAPES, DataName, DatasetConfig, PartitionName
from slotwise.data.errors import DataError
from slotwise.data.mnist import load_mnist
from slotwise.data.partition import dirichlet, iid, k_labels, one_label

__all__ = [
    "IMAGE_SHAPES",
    "DataError",
    "DataName",
    "Dataset",
    "DatasetConfig",
    "PartitionName",
    "cifar10_path",
    "dirichlet",
    "fetch_cifar10",
    "iid",
    "import_cifar10",
    "k_labels",
    "load_cifar10",
    "load_mnist",
    "one_label",
]
