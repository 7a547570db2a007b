"""CnnTask: the built-in convolutional network on images, with the numba kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.data.dataset import Bytes
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.fastcnn.network import FastCnn
from slotwise.learning.local_sgd import DeviceSamples, LocalSgd
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import Evaluation

CHUNK = 2048  # images gathered at once for an evaluation: a few megabytes


class CnnTask:
    """Image classification on devices that hold parts of one data set."""

    def __init__(
        self,
        samples: DeviceSamples,
        architecture: Architecture,
        sgd: LocalSgd,
        *,
        offset: tuple[float, ...] | None = None,
        scale: tuple[float, ...] | None = None,
    ) -> None:
        """``offset`` and ``scale`` standardise the pixels; by default as the data set says."""
        self.samples, self.architecture, self.sgd = samples, architecture, sgd
        dataset = samples.dataset
        self._network = FastCnn(architecture, offset=offset or dataset.offset, scale=scale or dataset.scale)

    def initial_model(self) -> Vector:
        """Uniform ±1/sqrt(fan-in), drawn from the seed."""
        return self.architecture.initial_parameters(generator(self.sgd.seed, Purpose.MODEL))

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        """w_start − w_end of H steps of SGD on the device's samples."""
        batches = self.samples.batches(self.sgd, device, training)
        dataset = self.samples.dataset
        end = self._network.train(
            model, dataset.train_images, dataset.train_labels, batches, self.sgd.learning_rate
        )
        update: Vector = np.subtract(model, end, out=end)
        if self.sgd.divisor != 1:
            update /= np.float32(self.sgd.divisor)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        """Mean loss over the union of the devices' data; accuracy over the test images."""
        dataset, union = self.samples.dataset, self.samples.union
        train = (dataset.train_images, dataset.train_labels)
        loss = sum(self._network.evaluate(model, *part)[0] for part in _chunks(*train, union))
        test = (dataset.test_images, dataset.test_labels)
        everything = np.arange(len(dataset.test_labels))
        correct = sum(self._network.evaluate(model, *part)[1] for part in _chunks(*test, everything))
        return Evaluation(loss / len(union), correct / len(everything))

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """The arrays under the names of the matching ``torch.nn.Sequential``'s state_dict."""
        return dict(_named_arrays(self.architecture, model))


def _named_arrays(architecture: Architecture, model: Vector) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Sequential(Conv2d, MaxPool2d, ReLU, …, Flatten, Linear, ReLU, …) numbers its layers in this order."""
    filters, layers = len(architecture.convolutions), len(architecture.weight_shapes)
    numbers = [3 * i if i < filters else 3 * filters + 1 + 2 * (i - filters) for i in range(layers)]
    names = [f"{number}.{kind}" for number in numbers for kind in ("weight", "bias")]
    first = 0
    for name, shape in zip(names, architecture.parameter_shapes, strict=True):
        last = first + prod(shape)
        yield name, model[first:last].reshape(shape)
        first = last


def _chunks(images: Bytes, labels: Bytes, rows: NDArray[np.integer]) -> Iterator[tuple[Bytes, Bytes]]:
    for first in range(0, len(rows), CHUNK):
        part = rows[first : first + CHUNK]
        yield images[part], labels[part]
