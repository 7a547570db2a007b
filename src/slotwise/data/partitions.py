"""Partitions: which samples each device gets.

A partition is a function of the data set, the number of devices and a generator; it returns the rows of each
device. The built-in ones are values of the classes below, which say who defined them. To add one, write a
class and name it in `PARTITIONS`: its fields are options of a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from slotwise.base.errors import InputError
from slotwise.data.dataset import Dataset
from slotwise.data.label_counts import LabelCounts
from slotwise.data.label_divisions import (
    Labels,
    Rows,
    dirichlet,
    dirichlet_per_class,
    iid,
    k_labels,
    one_label,
    pathological,
    shards,
)
from slotwise.data.sizes import Count, EqualSizes, Generator, Samples, SizesChoice, TooManySamples
from slotwise.options import Choice, Range, table_of
from slotwise.options.checks import Value


@dataclass(frozen=True, kw_only=True)
class Partition(Value, ABC):
    """Base class of the built-in partitions."""

    @abstractmethod
    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""

    def label_counts(self, dataset: Dataset, devices: int, generator: Generator) -> LabelCounts:
        """Return how many samples of each label each device gets; its `plot` is the picture of papers."""
        title = f"{dataset.name}, {self.describe()}, {devices:,} devices"
        return LabelCounts.of(dataset, self(dataset, devices, generator), title)

    def describe(self) -> str:
        """Return the name of the partition and its options, as in "shards (shards per device 2)"."""
        name, table = PARTITION.name_of(self), self._stated_options()
        shown = {option: "listed" if isinstance(value, tuple) else value for option, value in table.items()}
        options = [f"{option.replace('_', ' ')} {value}" for option, value in shown.items()]
        return f"{name} ({', '.join(options)})" if options else f"{name}"

    def _stated_options(self) -> dict[str, Any]:
        """Return the options that a description states."""
        return table_of(self)


@dataclass(frozen=True, kw_only=True)
class ByLabel(Partition):
    """A partition by label, of devices that hold given numbers of samples.

    Attributes:
        sizes: How many samples each device holds.
    """

    sizes: SizesChoice = EqualSizes()  # noqa: RUF009

    def _stated_options(self) -> dict[str, Any]:
        """Return the options without an equal number of samples, which the numbers beside it show."""
        counted = table_of(self.sizes) if type(self.sizes) is EqualSizes else {}
        return {name: value for name, value in table_of(self).items() if name not in counted}

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""
        samples = self.sizes.draw(devices, generator)
        try:
            return self.divide(dataset.train_targets, devices, samples, generator)
        except TooManySamples as error:
            raise self.sizes.blamed(error) from None

    @abstractmethod
    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device, which are chosen by their labels."""


class OneLabel(ByLabel):
    """Each device holds samples of one label, drawn at random: the setting of the paper's experiments.

    Zhao, Li, Lai, Suda, Civin and Chandra (2018), "Federated learning with non-IID data", call it 1-class
    non-IID.
    """

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return one_label(labels, devices, samples, generator)


@dataclass(frozen=True, kw_only=True)
class KLabels(ByLabel):
    """Each device holds samples of a few labels, drawn at random, equally many of each.

    The 2-class non-IID data of Zhao, Li, Lai, Suda, Civin and Chandra (2018), "Federated learning with
    non-IID data". Some labels may be held by no device; in `Pathological` each is held.

    Attributes:
        labels_per_device: Labels of each device.
    """

    labels_per_device: Count = 2

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return k_labels(labels, devices, samples, generator, self.labels_per_device)


@dataclass(frozen=True, kw_only=True)
class Dirichlet(ByLabel):
    """Each device holds all labels in proportions of its own, and as many samples as are asked for.

    After Hsu, Qi and Brown (2019), "Measuring the effects of non-identical data distribution for federated
    visual classification". For proportions of each label, see `DirichletPerClass`.

    Attributes:
        concentration: Parameter of the Dirichlet distribution; smaller is more unequal.
    """

    concentration: Annotated[float, Range(above=0)] = 0.5

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return dirichlet(labels, devices, samples, generator, self.concentration)


class Iid(ByLabel):
    """Each device holds samples of the whole data set, chosen at random.

    The IID data of McMahan, Moore, Ramage, Hampson and Agüera y Arcas (2017), "Communication-efficient
    learning of deep networks from decentralized data": 600 samples for each of 100 devices.
    """

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return iid(labels, devices, samples, generator)


class AllDivided(Partition):
    """A partition that divides all training samples by label, so devices hold different numbers of them."""

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""
        return self.divide(dataset.train_targets, devices, generator)

    @abstractmethod
    def divide(self, labels: Labels, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of each device, which are chosen by their labels."""


@dataclass(frozen=True, kw_only=True)
class Shards(AllDivided):
    """Each device holds a few shards of all samples sorted by label.

    The non-IID data of McMahan, Moore, Ramage, Hampson and Agüera y Arcas (2017), "Communication-efficient
    learning of deep networks from decentralized data".

    Attributes:
        shards_per_device: Shards of each device.
    """

    shards_per_device: Count = 2

    def divide(self, labels: Labels, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return shards(labels, devices, generator, self.shards_per_device)


@dataclass(frozen=True, kw_only=True)
class Pathological(AllDivided):
    """Each device holds a few labels, every label is held by a device, and all samples are used.

    Quantity-based label imbalance, #C=k, of Li, Diao, Chen and He (2022), "Federated learning on non-IID data
    silos: an experimental study".

    Attributes:
        labels_per_device: Labels of each device.
    """

    labels_per_device: Count = 2

    def divide(self, labels: Labels, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return pathological(labels, devices, generator, self.labels_per_device)


@dataclass(frozen=True, kw_only=True)
class DirichletPerClass(AllDivided):
    """The samples of each label are divided among the devices in proportions of its own; sizes differ.

    After Yurochkin, Agarwal, Ghosh, Greenewald, Hoang and Khazaeni (2019), "Bayesian nonparametric federated
    learning of neural networks"; the Dirichlet partition of Li, Diao, Chen and He (2022), "Federated learning
    on non-IID data silos: an experimental study".

    Attributes:
        concentration: Parameter of the Dirichlet distribution; smaller is more unequal.
        min_samples: Fewest samples of a device: proportions are drawn again until each has them.
        self_balancing: A device with more samples than the mean gets none of the labels that follow.
    """

    concentration: Annotated[float, Range(above=0)] = 0.5
    min_samples: Count = 10
    self_balancing: Literal["off", "on"] = "off"

    def divide(self, labels: Labels, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        balance = self.self_balancing == "on"
        return dirichlet_per_class(labels, devices, generator, self.concentration, self.min_samples, balance)


class Natural(Partition):
    """Each device holds all samples of one owner, such as a writer.

    As in Caldas et al. (2018), "LEAF: a benchmark for federated settings".
    """

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""
        return natural(dataset, devices, generator)


PARTITIONS: Mapping[str, type[Partition]] = {
    "one-label": OneLabel,
    "k-labels": KLabels,
    "dirichlet": Dirichlet,
    "iid": Iid,
    "shards": Shards,
    "pathological": Pathological,
    "dirichlet-per-class": DirichletPerClass,
    "natural": Natural,
}
PARTITION = Choice("partition", PARTITIONS, own=(3,))
PartitionChoice = Annotated[Any, PARTITION]
"""A value of a class above or of `given_partitions`, a function of your own, or a `UserFunction`."""


def natural(dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
    """Give each device all samples of one owner; if there are more owners, they are chosen at random.

    Raises:
        InputError: the owners are not known, or there are fewer owners than devices.
    """
    owned = dataset.owner_rows()
    if devices > len(owned):
        raise InputError("devices", devices, f"at most {len(owned):,}, the owners in {dataset.name}")
    if devices == len(owned):
        return owned
    chosen = np.sort(generator.permutation(len(owned))[:devices])
    return tuple(owned[owner] for owner in chosen)
