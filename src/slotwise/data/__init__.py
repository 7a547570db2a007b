"""Data sets, and their partition among devices."""

from slotwise.data.cifar10 import cifar10_path, fetch_cifar10, import_cifar10, load_cifar10
from slotwise.data.dataset import DataError, Dataset, load_mnist
from slotwise.data.dataset_cache import dataset_path
from slotwise.data.dataset_config import DatasetConfig, PartitionName
from slotwise.data.facts import FACTS, TITLES, DataFacts, DataName, FetchedName
from slotwise.data.fetching import fetch_dataset, import_dataset
from slotwise.data.npz_folder import load_npz_folder
from slotwise.data.partitions import dirichlet, iid, k_labels, natural, one_label, skewed_sizes

__all__ = [
    "FACTS", "TITLES", "DataError", "DataFacts", "DataName", "Dataset", "DatasetConfig", "FetchedName",
    "PartitionName", "cifar10_path", "dataset_path", "dirichlet", "fetch_cifar10", "fetch_dataset", "iid",
    "import_cifar10", "import_dataset", "k_labels", "load_cifar10", "load_mnist", "load_npz_folder",
    "natural", "one_label", "skewed_sizes",
]  # fmt: skip
