"""CnnTask: networks on images, trained by numba kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.base.user_code import describe_value
from slotwise.data.dataset import Bytes, Dataset
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.batches import draw_each
from slotwise.fastcnn.kernels import FastCnn, Kept
from slotwise.fastcnn.layers import LayerNetwork
from slotwise.learning.batching import Lengths
from slotwise.learning.local_training import DeviceSamples, LocalTraining, check_training, with_own_step
from slotwise.learning.optimizer import Optimizer, Step
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import Evaluation, Task, TrainingStart

CHUNK = 2048  # images gathered at once for an evaluation: a few megabytes


class CnnTask(Task):
    """Image classification on devices that hold parts of one data set."""

    def __init__(
        self,
        samples: DeviceSamples,
        architecture: Architecture | LayerNetwork,
        training: LocalTraining,
        *,
        offset: tuple[float, ...] | None = None,
        scale: tuple[float, ...] | None = None,
        model_seed: int | None = None,
        local_step: Step | None = None,
    ) -> None:
        """Standardise pixels with ``offset`` and ``scale``, by default those of the data set.

        The first model is drawn from ``model_seed``, by default the seed of ``training``. ``local_step`` is
        your own step of the optimiser, as in `TorchTask`.
        """
        if not isinstance(samples, DeviceSamples):
            raise InputError("samples", describe_value(samples), "DeviceSamples")
        check_training(training, samples)
        _check_images(samples.dataset, architecture)
        training = with_own_step(training, local_step)
        self.samples, self.architecture, self.training = samples, architecture, training
        self.devices = len(samples)
        self.returns_new_arrays = type(self) is CnnTask  # a subclass may train in another way
        self._model_seed = training.seed if model_seed is None else model_seed
        Optimizer(training)  # a step of the user's that cannot be imported is refused here
        dataset = samples.dataset
        try:
            self._network = FastCnn(
                architecture, offset=offset or dataset.offset, scale=scale or dataset.scale
            )
        except ValueError as error:
            raise UserError(f"CnnTask: {error}; give offset and scale, or a data set that has them") from None

    def initial_model(self) -> Vector:
        """Return weights and biases uniform in ±1/sqrt(fan-in), drawn from the seed."""
        return self.architecture.initial_parameters(generator(self._model_seed, Purpose.MODEL))

    def sample_count(self, device: int) -> int:
        """Return the number of samples that a device holds."""
        return self.samples.count(device)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        """Return w_start − w_end of the steps on the device's samples."""
        return self.local_updates(model, [start])[0]

    def local_updates(self, model: Vector, starts: Sequence[TrainingStart]) -> list[Vector]:
        """Return the updates of several local trainings on one model, in one call of the kernels."""
        if not self.training.is_plain_sgd or any(start.correction for start in starts):
            return [self._other_steps(model, start) for start in starts]
        cases = {(self.samples.count(one.device), self.training.batch_size_at(one.slot)) for one in starts}
        lengths = [self.training.batching.lengths(*case) for case in cases]
        if any(not np.array_equal(lengths[0], other) for other in lengths[1:]):
            return [self.local_update(model, start) for start in starts]  # devices with other batches
        images, labels = self.samples.dataset.train_inputs, self.samples.dataset.train_targets
        rates = [self.training.rate_at(start) for start in starts]
        batches, kept = self._batches(starts, lengths[0]), self._kept(starts, lengths[0])
        ends = self._network.train_each(model, images, labels, batches, rates, kept, lengths[0])
        return [self._update(model, end, len(lengths[0])) for end in ends]

    def _batches(self, starts: Sequence[TrainingStart], lengths: Lengths) -> NDArray[np.int64]:
        """Return what `DeviceSamples.batches` does, for several local trainings: [training, step, sample].

        Rows of short batches end with numbers that mean nothing.
        """
        chosen = np.zeros((len(starts), len(lengths), lengths.max()), dtype=np.int64)
        if self.training.batching.draws_each:
            jobs = np.array([(start.device, start.training) for start in starts], dtype=np.int64)
            seed, purpose = np.uint64(self.training.seed), np.uint64(Purpose.BATCHES)
            draw_each(self.samples.all_rows, self.samples.offsets, seed, purpose, jobs, chosen)
            return chosen
        for own, start in zip(chosen, starts, strict=True):
            for step, rows in enumerate(self.samples.batches(self.training, start)):
                own[step, : len(rows)] = rows
        return chosen

    def _kept(self, starts: Sequence[TrainingStart], lengths: Lengths) -> Kept | None:
        """Return what dropout keeps in each local training: [training, step, sample, value]."""
        rates, seed = self.architecture.dropout_rates, self.training.seed
        if not rates.size:
            return None
        shape = (len(lengths), int(lengths.max()), rates.size)
        draws = [generator(seed, Purpose.LAYERS, start.device, start.training) for start in starts]
        return np.stack([draw.random(shape, np.float32) >= rates for draw in draws])

    def _other_steps(self, model: Vector, start: TrainingStart) -> Vector:
        """Return the update of an optimiser other than plain SGD, or with a correction."""
        images, labels = self.samples.dataset.train_inputs, self.samples.dataset.train_targets
        end, optimizer = model.copy(), Optimizer(self.training)
        context = optimizer.begin(start, model)
        batches = self.samples.batches(self.training, start)
        kept = self._kept([start], np.array([len(rows) for rows in batches]))
        for step, rows in enumerate(batches):
            own = None if kept is None else kept[0, step, : len(rows)]
            _, gradient = self._network.gradient(end, images[rows], labels[rows], own)
            optimizer.step(end, gradient, context)
        return self._update(model, end, len(batches))

    def gradient(self, model: Vector, rows: NDArray[np.integer]) -> Vector:
        """Return the gradient of the mean loss over rows of the training images."""
        images, labels = self.samples.dataset.train_inputs, self.samples.dataset.train_targets
        return self._network.gradient(model, images[rows], labels[rows])[1]

    def _update(self, model: Vector, end: Vector, steps: int) -> Vector:
        """Return w_start − w_end in place of w_end, divided as the reading of the update says."""
        update: Vector = np.subtract(model, end, out=end)
        if (divisor := self.training.divisor(steps)) != 1:
            update /= np.float32(divisor)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        """Return the mean loss over the union of the devices' data, and test accuracy and test loss."""
        dataset, union = self.samples.dataset, self.samples.union
        loss, _ = self._sums(model, dataset.train_inputs, dataset.train_targets, union)
        tests = len(dataset.test_targets)
        test_loss, correct = self._sums(model, dataset.test_inputs, dataset.test_targets, np.arange(tests))
        return Evaluation(loss / len(union), correct / tests, {"test_loss": test_loss / tests})

    def device_loss(self, model: Vector, device: int) -> float:
        """Return the mean loss over the samples of a device."""
        dataset, rows = self.samples.dataset, self.samples.rows[device - 1]
        return self._sums(model, dataset.train_inputs, dataset.train_targets, rows)[0] / len(rows)

    def _sums(
        self, model: Vector, images: Bytes, labels: Bytes, rows: NDArray[np.integer]
    ) -> tuple[float, int]:
        loss, correct = 0.0, 0
        for first in range(0, len(rows), CHUNK):
            part = rows[first : first + CHUNK]
            found = self._network.evaluate(model, images[part], labels[part])
            loss, correct = loss + found[0], correct + found[1]
        return loss, correct

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays by their names in the state_dict of the same ``torch.nn.Sequential``."""
        names = self.architecture.parameter_names
        shapes = self.architecture.parameter_shapes
        parts = np.split(model, np.cumsum([prod(shape) for shape in shapes])[:-1])
        return {n: part.reshape(shape) for n, part, shape in zip(names, parts, shapes, strict=True)}


def _check_images(dataset: Dataset, architecture: Architecture | LayerNetwork) -> None:
    """Refuse a data set that the network cannot take."""
    inputs = dataset.train_inputs
    if inputs.dtype != np.uint8 or dataset.input_shape != architecture.input_shape:
        found, wanted = f"{inputs.dtype}{[*dataset.input_shape]}", f"uint8{[*architecture.input_shape]}"
        raise UserError(f"CnnTask: inputs are {found}, must be {wanted} as the architecture says")
    labels = [targets for targets in (dataset.train_targets, dataset.test_targets) if targets.ndim == 1]
    if len(labels) < 2 or any(each.dtype.kind not in "biu" for each in labels):
        raise UserError("CnnTask: targets must be labels, one whole number for each sample")
    smallest, largest = min(int(each.min()) for each in labels), max(int(each.max()) for each in labels)
    if smallest < 0 or largest >= architecture.classes:
        wrong, most = smallest if smallest < 0 else largest, architecture.classes - 1
        raise UserError(f"CnnTask: the data has label {wrong}; labels of this architecture are 0 to {most}")
