"""The data of a run: a data set that is divided among the devices, or a folder with a file for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from slotwise.base.errors import InputError, UserError, shown
from slotwise.base.user_code import user_errors
from slotwise.data.cifar10 import load_cifar10
from slotwise.data.dataset import DataError, Dataset, load_mnist
from slotwise.data.dataset_cache import dataset_path, load_cached, missing_notice, stored_hash
from slotwise.data.facts import FACTS, DataFacts, DataName
from slotwise.data.given_partitions import as_partition, is_partitioner, rows_of
from slotwise.data.hub_data import HubData
from slotwise.data.named_data import NamedData
from slotwise.data.npz_folder import folder_facts, folder_hash, load_npz_folder
from slotwise.data.partitions import (
    PARTITION,
    AllDivided,
    ByLabel,
    Natural,
    OneLabel,
    Partition,
    PartitionChoice,
)
from slotwise.data.sizes import AllSamples, EqualSizes, Generator, ListedSizes, PowerLawSizes, Sizes
from slotwise.data.torchvision_data import TorchvisionData
from slotwise.options import Choice, Either, FileName, Found, Range, loaded
from slotwise.options.checks import LARGEST_SEED, Value

InputScale = Literal["standard", "unit"]
NAMED = {kind.beginning: kind for kind in (HubData, TorchvisionData)}
DATA = Choice("data", {name: name for name in FACTS}, families=NAMED)
DataChoice = Annotated[Any, DATA]
"""The short name of a data set, or a `NamedData`."""


class DataSource(Value, ABC):
    """Samples for training and testing, and which device holds which."""

    input_scale: InputScale

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the data set, or of the folder: two runs of the same source can share what is loaded."""

    @property
    @abstractmethod
    def facts(self) -> DataFacts:
        """Title, shape and classes."""

    @property
    @abstractmethod
    def content_hash(self) -> str | None:
        """Content hash of the data; None for MNIST, or if the data set was not fetched."""

    @property
    @abstractmethod
    def sizes(self) -> Sizes:
        """The numbers of samples of the devices, or an estimate."""

    @property
    @abstractmethod
    def samples_option(self) -> str:
        """The option that decides how many samples there are in all."""

    @property
    def samples_per_device(self) -> int:
        """Samples of a device: the most that is given or possible, or the mean if they are drawn."""
        return self.sizes.held(1)

    @property
    def missing(self) -> str | None:
        """Sentence that says how to get the data set, or None if it is on this machine."""
        return None

    def check_devices(self, devices: int) -> None:
        """Refuse a number of devices other than that of a list or of the files of a folder."""
        self.sizes.check_devices(devices)

    @abstractmethod
    def load(self, devices: Collection[int] | None = None) -> Dataset:
        """Load the data set; of a data folder only the files of ``devices``, if they are given."""

    @abstractmethod
    def divide(self, dataset: Dataset, devices: int, draw: Generator) -> Sequence[Any]:
        """Return the rows of the samples of each device; devices may have different numbers of samples."""

    @property
    def draws_sizes(self) -> bool:
        """True if another seed may give devices other numbers of samples."""
        return False

    @abstractmethod
    def device_sizes(self, devices: int, draw: Generator) -> tuple[int, ...]:
        """Return the number of samples of each device, without loading the data set if that is possible."""

    def standardisation(self, dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return offset and scale of the pixels, per channel."""
        if self.input_scale == "standard":
            return dataset.offset, dataset.scale
        if not dataset.offset:
            raise InputError("input_scale", self.input_scale, "omitted: the inputs are no images")
        return (0.0,) * len(dataset.offset), (1.0,) * len(dataset.scale)


@dataclass(frozen=True, kw_only=True)
class PartitionedData(DataSource):
    """A data set that is divided among the devices.

    Attributes:
        data: Data set: mnist, fashion-mnist, cifar10, cifar100, emnist, femnist, shakespeare; hf:NAME, any
            classification set of images or of a table on the Hugging Face Hub; or torchvision:NAME, any
            image classification set of torchvision by the name of its class.
        partition: Samples that a device holds: one-label (in the paper, samples of one label each), k-labels,
            dirichlet (proportions of each device), iid, shards, pathological (k labels, every label with a
            device), dirichlet-per-class (proportions of each label), natural (those of one owner, such as
            the writer), or your own module:function.
        input_scale: Pixels standardised by the data set's mean and deviation, or scaled to 0..1.
        data_seed: Random seed of the partition. Default: that of the run.
    """

    data_folder: ClassVar[None] = None
    data: DataChoice = "mnist"
    partition: PartitionChoice = OneLabel()  # noqa: RUF009
    input_scale: InputScale = "standard"
    data_seed: Annotated[int, Range(least=0, most=LARGEST_SEED)] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition", as_partition(self.partition))
        super().__post_init__()
        if isinstance(self.partition, Natural) and not self._has_owners:
            known = ", ".join(name for name, facts in FACTS.items() if facts.owners)
            allowed = f"used with data that has owners: {known}, or hf:NAME with owner_column"
            raise InputError("partition", "natural", allowed)

    @property
    def _has_owners(self) -> bool:
        owned = self.data if isinstance(self.data, NamedData) else self.facts
        return owned.owners is not None

    @property
    def partition_name(self) -> str:
        """The short name of the partition, or module:function of your own."""
        return PARTITION.name_of(self.partition) or "your own"

    @property
    def partition_text(self) -> str:
        """The partition with its own options."""
        return self.partition.describe() if isinstance(self.partition, Partition) else self.partition_name

    @property
    def source(self) -> str:
        """Name of the data set; of one by name with the options that decide what is read."""
        if isinstance(self.data, NamedData):
            options = [f"{name}={value}" for name, value in self.data.options.items()]
            return " ".join([self.data.title, *options])
        return str(self.data)

    @property
    def facts(self) -> DataFacts:
        """Title, shape and classes; a DataError for a set by name that was not fetched."""
        return self.data.facts if isinstance(self.data, NamedData) else FACTS[self.data]

    @property
    def missing(self) -> str | None:
        """Sentence that says how to get the data set, or None if it is on this machine."""
        if isinstance(self.data, NamedData):
            return None if self.data.path.is_file() else self.data.missing_notice
        is_here = self.data == "mnist" or dataset_path(self.data).is_file()
        return None if is_here else missing_notice(self.data)

    @property
    def content_hash(self) -> str | None:
        """Content hash of a fetched data set; None for MNIST, or if it was not fetched."""
        if isinstance(self.data, NamedData):
            return stored_hash(self.data.path)
        return None if self.data == "mnist" else stored_hash(dataset_path(self.data))

    @property
    def sizes(self) -> Sizes:
        """The numbers of samples of the devices; an estimate for natural owners and your own partition."""
        if isinstance(self.partition, Natural):
            return EqualSizes(samples_per_device=self.facts.samples_per_owner)
        if isinstance(self.partition, AllDivided):
            return AllSamples(samples=self.facts.samples)
        return getattr(self.partition, "sizes", EqualSizes())

    @property
    def samples_option(self) -> str:
        """The option that decides how many samples there are in all."""
        if PARTITION.is_own(self.partition):
            return "partition"
        return "devices" if isinstance(self.partition, Natural) else self.sizes.option

    def load(self, devices: Collection[int] | None = None) -> Dataset:  # noqa: ARG002
        """Load the data set."""
        if isinstance(self.data, NamedData):
            return self.data.load()
        if self.data == "mnist":
            return load_mnist()
        return load_cifar10() if self.data == "cifar10" else load_cached(self.data)

    def divide(self, dataset: Dataset, devices: int, draw: Generator) -> Sequence[Any]:
        """Return the rows of the samples of each device; devices may have different numbers of samples."""
        divide = loaded(self.partition)
        if isinstance(divide, Partition):
            return divide(dataset, devices, draw)
        with user_errors(f"partition {self.partition_name} failed"):
            divided = divide(dataset, devices, draw)
        if is_partitioner(divided):
            divided = rows_of(divided, dataset, devices)
        if not isinstance(divided, Iterable):
            wanted = f"one list of row numbers for each device; it returned {shown(divided)}"
            raise UserError(f"partition {self.partition_name} must return {wanted}")
        with user_errors(f"partition {self.partition_name} failed"):  # it may be a generator
            rows = tuple(divided)
        if len(rows) != devices:
            found = f"the rows of {len(rows)} devices, must be those of {devices}"
            raise UserError(f"partition {self.partition_name} returned {found}")
        return rows

    @property
    def draws_sizes(self) -> bool:
        """True if sizes are drawn, or follow from the data set and the draws of the partition."""
        return type(getattr(self.partition, "sizes", None)) not in (EqualSizes, ListedSizes, PowerLawSizes)

    def device_sizes(self, devices: int, draw: Generator) -> tuple[int, ...]:
        """Return the number of samples of each device; the data set is loaded only if they follow from it."""
        if isinstance(self.partition, ByLabel):  # it draws the sizes first
            drawn = self.partition.sizes.draw(devices, draw)
            return (drawn,) * devices if isinstance(drawn, int) else tuple(map(int, drawn))
        return tuple(len(rows) for rows in self.divide(self.load(), devices, draw))


@dataclass(frozen=True, kw_only=True)
class DataFolder(DataSource):
    """A folder with the samples of each device, one file each.

    Attributes:
        data_folder: Your own data instead: a folder with device-1.npz, device-2.npz, … and test.npz.
        device_samples: Samples of devices 1 to N, one by one.
        folder_shape: Shape of an input in the data folder.
        folder_classes: Number of classes in the data folder.
        input_scale: Pixels standardised by the data set's mean and deviation, or scaled to 0..1.
    """

    data: ClassVar[DataName] = "mnist"  # whose case of the paper has the defaults of its runs
    partition: ClassVar[None] = None
    data_seed: ClassVar[None] = None
    data_folder: Annotated[str, FileName()]
    device_samples: Annotated[tuple[int, ...], Found(of="data_folder")] = ()
    folder_shape: Annotated[tuple[int, ...], Found(of="data_folder")] = ()
    folder_classes: Annotated[int | None, Found(of="data_folder")] = None
    input_scale: InputScale = "standard"

    def __post_init__(self) -> None:
        if isinstance(self.data_folder, Path):
            object.__setattr__(self, "data_folder", str(self.data_folder))
        super().__post_init__()
        object.__setattr__(self, "data_folder", str(Path(self.data_folder).absolute()))
        if not self.device_samples:  # the folder of a run may be on another machine, and the facts known
            facts = folder_facts(self.data_folder)
            object.__setattr__(self, "device_samples", facts.samples)
            object.__setattr__(self, "folder_shape", facts.input_shape)
            object.__setattr__(self, "folder_classes", facts.classes)

    @property
    def source(self) -> str:
        """Name of the folder."""
        return self.data_folder

    @property
    def facts(self) -> DataFacts:
        """Title, shape and classes; without labels the number of classes is 0."""
        samples = sum(self.device_samples)
        return DataFacts(self.data_folder, self.folder_shape, self.folder_classes or 0, samples)

    @property
    def content_hash(self) -> str:
        """Content hash of the files."""
        return folder_hash(self.data_folder)

    @property
    def sizes(self) -> ListedSizes:
        """The numbers of samples of the devices."""
        return ListedSizes(device_samples=self.device_samples)

    @property
    def samples_option(self) -> str:
        """The option that decides how many samples there are in all."""
        return "data_folder"

    def check_devices(self, devices: int) -> None:
        """Refuse a number of devices other than that of the files."""
        count = len(self.device_samples)
        if count != devices:
            raise InputError("devices", devices, f"{count}, one for each file of {self.data_folder}")

    def load(self, devices: Collection[int] | None = None) -> Dataset:
        """Load the samples; only the files of ``devices``, if they are given."""
        dataset = load_npz_folder(self.data_folder, devices=devices, classes=self.folder_classes)
        numbers = range(1, len(self.device_samples) + 1) if devices is None else sorted(devices)
        found = tuple(len(rows) for rows in dataset.owner_rows())
        wanted = tuple(self.device_samples[number - 1] for number in numbers)
        if (found, dataset.input_shape) != (wanted, self.folder_shape):
            changed = "has other samples than the run had, or was announced, at its start"
            raise DataError(f"{self.data_folder} {changed}")
        return dataset

    def divide(self, dataset: Dataset, devices: int, draw: Generator) -> Sequence[Any]:  # noqa: ARG002
        """Return the rows of the samples of each device."""
        return dataset.owner_rows()

    def device_sizes(self, devices: int, draw: Generator) -> tuple[int, ...]:  # noqa: ARG002
        """Return the number of samples of each device."""
        return self.device_samples


DataOptions = Annotated[PartitionedData | DataFolder, Either((PartitionedData, DataFolder))]
