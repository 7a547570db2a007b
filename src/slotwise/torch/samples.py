"""Batches of torch tensors: from the arrays of a Dataset, or from torch data sets, one for each device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import default_collate

from slotwise.base.errors import InputError, UserError
from slotwise.base.user_code import describe_value
from slotwise.data.dataset import Dataset
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.task import TrainingStart

Rows = NDArray[np.integer]
Batch = tuple[Any, Any]  # inputs and targets


class MapDataset(Protocol):
    """A map-style ``torch.utils.data.Dataset``: a length, and items (input, target) by index."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return input and target of a sample."""


class Batches(Protocol):
    """Samples of the devices and of the test as torch tensors. Rows are numbers of samples."""

    union: Rows
    test_rows: Rows

    def __len__(self) -> int:
        """Return the number of devices."""

    def count(self, device: int) -> int:
        """Return the number of samples of a device."""

    def rows_of(self, device: int) -> Rows:
        """Return the rows of a device."""

    def batches(self, training: LocalTraining, start: TrainingStart) -> Sequence[Rows]:
        """Return the rows in each step of one local training."""

    def train_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some training samples."""

    def test_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some test samples."""


class TorchSamples:
    """Samples from torch data sets: one for each device, and one for the test; read when they are needed.

    Data sets are read from several threads at once. Random augmentations are seeded like random layers,
    provided that they draw with torch.

    Attributes:
        union: Numbers of all training samples.
        test_rows: Numbers of all test samples.
        first_rows: Number of the first sample of each device.
    """

    def __init__(
        self,
        devices: Sequence[MapDataset],
        test: MapDataset,
        *,
        collate: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        """Give device n the data set ``devices[n - 1]``; ``collate`` makes a batch of a list of items."""
        if not isinstance(devices, Sequence):
            raise InputError("samples", describe_value(devices), "a list of data sets, one for each device")
        self._devices, self._test, self._collate = tuple(devices), test, collate
        for dataset in (*self._devices, test):
            if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
                raise InputError("samples", describe_value(dataset), "a data set with a length and items")
        if not self._devices:
            raise InputError("samples", "no data set", "one data set for each device")
        sizes = [len(own) for own in self._devices]
        for device, size in enumerate(sizes, start=1):
            if not size:
                raise InputError("samples", f"none of device {device}", "at least one sample")
        if not len(test):
            raise InputError("test", "no sample", "at least one sample")
        self._ends = np.cumsum(sizes)
        self.union: Rows = np.arange(self._ends[-1])
        self.first_rows: Rows = self._ends - np.array(sizes)
        self.test_rows: Rows = np.arange(len(test))

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self._devices)

    def count(self, device: int) -> int:
        """Return the number of samples of a device."""
        return len(self._devices[device - 1])

    def rows_of(self, device: int) -> Rows:
        """Return the rows of a device."""
        first = int(self.first_rows[device - 1])
        return np.arange(first, first + self.count(device))

    def batches(self, training: LocalTraining, start: TrainingStart) -> Sequence[Rows]:
        """Return the rows in each step of one local training."""
        own = self.count(start.device)
        first = int(self._ends[start.device - 1]) - own
        return [first + chosen for chosen in training.batches(start, own)]

    def train_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some training samples."""
        # The last row of device i is ends[i] - 1, so a row equal to an end belongs to the next device.
        owners = np.searchsorted(self._ends, rows, side="right")
        items = []
        for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
            own = self._devices[owner]
            items.append(own[row - int(self._ends[owner]) + len(own)])
        return self._batch(items)

    def test_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some test samples."""
        return self._batch([self._test[row] for row in rows.tolist()])

    def _batch(self, items: list[Any]) -> Batch:
        batch = self._collate(items)
        try:
            inputs, targets = batch
        except (TypeError, ValueError):
            raise UserError("TorchTask: items of a data set must be pairs (input, target)") from None
        return convert(inputs), convert(targets)


class ArrayBatches:
    """Batches from arrays; uint8 images are standardised if the data set says how."""

    def __init__(
        self, samples: DeviceSamples, offset: tuple[float, ...] | None, scale: tuple[float, ...] | None
    ) -> None:
        """Standardise with ``offset`` and ``scale``, by default those of the data set."""
        self._samples, self._dataset = samples, samples.dataset
        self.union: Rows = samples.union
        self.test_rows: Rows = np.arange(len(samples.dataset.test_targets))
        self.count, self.batches = samples.count, samples.batches
        numbers = offset or self._dataset.offset, scale or self._dataset.scale
        self._offset, self._scale = (torch.tensor(n, dtype=torch.float32).view(-1, 1, 1) for n in numbers)
        self._standardised = bool(numbers[1])

    @property
    def has_raw_images(self) -> bool:
        """True if images stay whole numbers from 0 to 255, because nothing says how to standardise them."""
        inputs = self._dataset.train_inputs
        return inputs.dtype == np.uint8 and inputs.ndim == 4 and not self._standardised

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self._samples)

    def rows_of(self, device: int) -> Rows:
        """Return the rows of a device."""
        return self._samples.rows[device - 1]

    def train_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some training samples."""
        return self._inputs(self._dataset.train_inputs, rows), _take(self._dataset.train_targets, rows)

    def test_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some test samples."""
        return self._inputs(self._dataset.test_inputs, rows), _take(self._dataset.test_targets, rows)

    def label_ranges(self, ignored: int) -> list[tuple[int, int]]:
        """Return the smallest and largest label of training and test, without those that are ignored."""
        ranges = []
        for targets in (self._dataset.train_targets, self._dataset.test_targets):
            labels = targets[targets != ignored]
            ranges.append((int(labels.min(initial=0)), int(labels.max(initial=0))))
        return ranges

    def _inputs(self, inputs: NDArray[Any], rows: Rows) -> Tensor:
        if not self._standardised:
            return _take(inputs, rows)
        images = torch.from_numpy(inputs[rows]).to(torch.float32)
        # In place, because indexing with rows has made a copy.
        return images.div_(255).sub_(self._offset).div_(self._scale)


class ResidentBatches(ArrayBatches):
    """Batches from arrays that stay in the memory of a GPU: no sample is copied to it during a training."""

    def __init__(self, batches: ArrayBatches, device: torch.device) -> None:
        """Copy the samples of ``batches`` to the device, in the types that they have."""
        self.__dict__.update(batches.__dict__)
        self._device = device
        self._offset, self._scale = self._offset.to(device), self._scale.to(device)
        arrays = _arrays(self._dataset)
        self._train, self._train_targets, self._test, self._test_targets = (
            torch.tensor(array).to(device) for array in arrays
        )

    def train_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some training samples."""
        return self._chosen(self._train, self._train_targets, rows)

    def test_batch(self, rows: Rows) -> Batch:
        """Return inputs and targets of some test samples."""
        return self._chosen(self._test, self._test_targets, rows)

    def _chosen(self, inputs: Tensor, targets: Tensor, rows: Rows) -> Batch:
        chosen = torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(self._device, non_blocking=True)
        taken, answers = inputs[chosen], targets[chosen]
        answers = answers.to(_used_type(answers))
        if not self._standardised:
            return taken.to(_used_type(taken)), answers
        return taken.to(torch.float32).div_(255).sub_(self._offset).div_(self._scale), answers


def kept_on(device: torch.device, batches: Batches, free: int) -> Batches:
    """Return batches from the memory of a GPU, if the arrays take at most a quarter of the ``free`` bytes."""
    if device.type == "cpu" or not isinstance(batches, ArrayBatches):
        return batches
    fits = 4 * sum(array.nbytes for array in _arrays(batches._dataset)) <= free
    return ResidentBatches(batches, device) if fits else batches


def _arrays(dataset: Dataset) -> tuple[NDArray[Any], ...]:
    return dataset.train_inputs, dataset.train_targets, dataset.test_inputs, dataset.test_targets


def _take(array: NDArray[Any], rows: Rows) -> Tensor:
    """Return some rows in memory that torch has allocated.

    Torch aligns memory to 64 bytes and numpy to 16; sums of the same numbers in memory that is aligned
    differently may round differently.
    """
    taken = torch.from_numpy(array[rows])
    result = torch.empty((len(rows), *array.shape[1:]), dtype=_used_type(taken))
    result.copy_(taken)
    return result


def convert(values: Any) -> Any:
    """Return tensors as float32, int64 or bool, also those inside tuples, lists and dicts."""
    if isinstance(values, dict):
        return {name: convert(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return [convert(value) for value in values]
    if not isinstance(values, Tensor):
        return values
    return values.to(_used_type(values))


def _used_type(values: Tensor) -> torch.dtype:
    """Return float32 for floating-point numbers, int64 for integers, and bool for truth values."""
    if values.dtype == torch.bool:
        return torch.bool  # ~mask inverts bits of integers
    return torch.float32 if values.is_floating_point() else torch.int64


def arrange(values: Any, device: torch.device, *, channels_last: bool) -> Any:
    """Return a batch on the torch device; images, four dimensions, with the channels last or not."""
    if isinstance(values, dict):
        return {name: arrange(v, device, channels_last=channels_last) for name, v in values.items()}
    if isinstance(values, list):
        return [arrange(value, device, channels_last=channels_last) for value in values]
    if not isinstance(values, Tensor):
        return values
    values = values.to(device)
    if values.dim() != 4 or not values.is_floating_point():
        return values
    if not channels_last:
        # The strides of a dimension of one are arbitrary, and some make torch choose channels-last.
        return values.contiguous().flatten().view(values.shape)
    if values.shape[1] > 1:
        return values.contiguous(memory_format=torch.channels_last)
    # With one channel both orders are the same memory. Only these strides make torch choose the kernels of
    # channels-last, which are faster on a CPU.
    height, width = values.shape[2:]
    return values.contiguous().as_strided(values.shape, (height * width, 1, width, 1))
