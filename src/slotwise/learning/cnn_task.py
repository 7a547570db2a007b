"""CnnTask: the built-in networks on images; FastCnn: such a network on the numba kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.aggregation import Vector
from slotwise.data.dataset import Bytes, Dataset
from slotwise.errors import InputError, UserError
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.fastcnn.batches import draw_each
from slotwise.learning.fastcnn.kernels import Kept, make_kernels, read_only
from slotwise.learning.local_training import DeviceSamples, LocalTraining, check_training, with_own_step
from slotwise.learning.optimizer import Optimizer, Step
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import Evaluation, Task, TrainingStart
from slotwise.user_code import describe_value

CHUNK = 2048  # images gathered at once for an evaluation: a few megabytes


class CnnTask(Task):
    """Image classification on devices that hold parts of one data set."""

    def __init__(
        self,
        samples: DeviceSamples,
        architecture: Architecture,
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
        """Return w_start − w_end of H steps on the device's samples."""
        return self.local_updates(model, [start])[0]

    def local_updates(self, model: Vector, starts: Sequence[TrainingStart]) -> list[Vector]:
        """Return the updates of several local trainings on one model, in one call of the kernels."""
        if not self.training.is_plain_sgd:
            return [self._update(model, self._other_steps(model, start)) for start in starts]
        sizes = {min(self.samples.count(start.device), self.training.batch_size) for start in starts}
        if len(sizes) > 1:  # of devices with fewer samples than a batch
            return [self.local_update(model, start) for start in starts]
        images, labels = self.samples.dataset.train_inputs, self.samples.dataset.train_targets
        rates = [self.training.rate_at(start) for start in starts]
        batches, kept = self._batches(starts, *sizes), self._kept(starts, *sizes)
        ends = self._network.train_each(model, images, labels, batches, rates, kept)
        return [self._update(model, end) for end in ends]

    def _batches(self, starts: Sequence[TrainingStart], size: int) -> NDArray[np.int64]:
        """Return what `DeviceSamples.batches` does, for several local trainings: [training, step, sample]."""
        jobs = np.array([(start.device, start.training) for start in starts], dtype=np.int64)
        chosen = np.empty((len(starts), self.training.local_steps, size), dtype=np.int64)
        seed, purpose = np.uint64(self.training.seed), np.uint64(Purpose.BATCHES)
        draw_each(self.samples.all_rows, self.samples.offsets, seed, purpose, jobs, chosen)
        return chosen

    def _kept(self, starts: Sequence[TrainingStart], size: int) -> Kept | None:
        """Return what dropout keeps in each local training: [training, step, sample, value]."""
        values = sum(self.architecture.dropped_sizes)
        if not values:
            return None
        shape = (self.training.local_steps, size, values)
        seed, rate = self.training.seed, np.float32(self.architecture.dropout)
        draws = [generator(seed, Purpose.LAYERS, start.device, start.training) for start in starts]
        return np.stack([draw.random(shape, np.float32) >= rate for draw in draws])

    def _other_steps(self, model: Vector, start: TrainingStart) -> Vector:
        """Return the model after H steps of an optimiser other than plain SGD."""
        images, labels = self.samples.dataset.train_inputs, self.samples.dataset.train_targets
        end, optimizer = model.copy(), Optimizer(self.training)
        context = optimizer.begin(start, model)
        batches = self.samples.batches(self.training, start)
        kept = self._kept([start], batches.shape[1])
        for step, rows in enumerate(batches):
            own = None if kept is None else kept[0, step]
            _, gradient = self._network.gradient(end, images[rows], labels[rows], own)
            optimizer.step(end, gradient, context)
        return end

    def _update(self, model: Vector, end: Vector) -> Vector:
        """Return w_start − w_end in place of w_end, divided as the reading of the update says."""
        update: Vector = np.subtract(model, end, out=end)
        if self.training.divisor != 1:
            update /= np.float32(self.training.divisor)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        """Return the mean loss over the union of the devices' data, and test accuracy and test loss."""
        dataset, union = self.samples.dataset, self.samples.union
        loss, _ = self._sums(model, dataset.train_inputs, dataset.train_targets, union)
        tests = len(dataset.test_targets)
        test_loss, correct = self._sums(model, dataset.test_inputs, dataset.test_targets, np.arange(tests))
        return Evaluation(loss / len(union), correct / tests, {"test_loss": test_loss / tests})

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
        # Sequential(Conv2d, MaxPool2d, ReLU, …, Flatten, Linear, ReLU, …) has these numbers.
        filters, layers = len(self.architecture.convolutions), len(self.architecture.weight_shapes)
        numbers = [3 * i if i < filters else 3 * filters + 1 + 2 * (i - filters) for i in range(layers)]
        if self.architecture.dropout:  # one more layer after the last convolution, and before the last layer
            numbers[filters:] = [number + bool(filters) for number in numbers[filters:]]
            numbers[-1] += 1
        names = [f"{number}.{kind}" for number in numbers for kind in ("weight", "bias")]
        shapes = self.architecture.parameter_shapes
        parts = np.split(model, np.cumsum([prod(shape) for shape in shapes])[:-1])
        return {n: part.reshape(shape) for n, part, shape in zip(names, parts, shapes, strict=True)}


def _check_images(dataset: Dataset, architecture: Architecture) -> None:
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


class FastCnn:
    """The network of an `Architecture`, for models given as flat float32 vectors in PyTorch's order.

    Without convolutions it is an MLP, or multinomial logistic regression, with kernels of their own. A call
    uses one core and releases the interpreter lock, so several threads can call at once. The result depends
    on the arguments only, to the last bit.
    """

    def __init__(
        self, architecture: Architecture, *, offset: Sequence[float], scale: Sequence[float]
    ) -> None:
        """Standardise a pixel x of channel c (0..255) as (x / 255 - offset[c]) / scale[c]."""
        channels = architecture.input_shape[0]
        if len(offset) != channels or len(scale) != channels:
            raise ValueError(f"offset and scale need one number for each of the {channels} channels")
        if not all(deviation > 0 for deviation in scale):
            raise ValueError(f"scale must be positive, not {list(scale)}")
        self.architecture = architecture
        self._kernels = make_kernels(architecture, offset, scale)
        self._idle: list[Any] = []

    def train(
        self, model: Vector, images: Bytes, labels: ArrayLike, batches: ArrayLike, learning_rate: float
    ) -> Vector:
        """Take one step of gradient descent on the mean cross-entropy of each batch; return the new model.

        `batches` is [steps, batch]: numbers of images.
        """
        steps = np.asarray(batches)
        if steps.ndim != 2:
            raise ValueError(f"batches must be [steps, batch], not {list(steps.shape)}")
        return self.train_each(model, images, labels, steps[np.newaxis], [learning_rate])[0]

    def train_each(
        self, model: Vector, images: Bytes, labels: ArrayLike, batches: ArrayLike, rates: Sequence[float],
        kept: Kept | None = None,
    ) -> list[Vector]:  # fmt: skip
        """Do several trainings from one model, see `train`; `batches` is [trainings, steps, batch].

        `kept` says what dropout keeps, [trainings, steps, batch, values]: channels of the last convolution,
        then inputs of the last dense layer. Without it nothing is dropped.
        """
        steps = read_only(batches, np.int64)
        if steps.ndim != 3 or steps.shape[2] == 0:
            wanted = "[trainings, steps, batch], at least one sample"
            raise ValueError(f"batches must be {wanted}, not {list(steps.shape)}")
        if steps.size and not 0 <= steps.min() <= steps.max() < len(images):
            raise ValueError(f"batches must hold numbers of images, 0 to {len(images) - 1}")
        start, pixels, answers = self._checked(model, images, labels, steps)
        self._check_kept(kept, steps.shape)
        with self._workspace() as work:
            return self._kernels.train_each(work, start, pixels, steps, answers, kept, rates)

    def gradient(
        self, model: Vector, images: Bytes, labels: ArrayLike, kept: Kept | None = None
    ) -> tuple[float, Vector]:
        """Return the mean cross-entropy over the images, and its gradient as a model vector.

        `kept` is [images, values], see `train_each`.
        """
        if len(images) == 0:
            raise ValueError("a gradient needs at least one image")
        given = self._checked(model, images, labels, np.arange(len(images)))
        self._check_kept(kept, (len(images),))
        with self._workspace() as work:
            return self._kernels.gradient(work, *given, kept)

    def evaluate(self, model: Vector, images: Bytes, labels: ArrayLike) -> tuple[float, int]:
        """Return the sum of the cross-entropies over the images, and the number classified correctly."""
        given = self._checked(model, images, labels, np.arange(len(images)))
        with self._workspace() as work:
            return self._kernels.evaluate(work, *given)

    def __getstate__(self) -> dict[str, object]:
        """Pickle everything but the workspaces, which another process makes for itself."""
        return {**self.__dict__, "_idle": []}

    @contextmanager
    def _workspace(self) -> Iterator[Any]:
        """Take an idle workspace of an earlier call, or make one if all are in use."""
        try:
            work = self._idle.pop()
        except IndexError:  # not asked beforehand: another thread may take the last one
            work = self._kernels.make_workspace()
        try:
            yield work
        finally:
            self._idle.append(work)

    def _check_kept(self, kept: Kept | None, shape: tuple[int, ...]) -> None:
        """Refuse what the kernels would read beyond its end."""
        wanted = (*shape, sum(self.architecture.dropped_sizes))
        if kept is not None and (kept.shape != wanted or not wanted[-1]):
            raise ValueError(f"kept must be {list(wanted)}, and omitted without dropout: {list(kept.shape)}")

    def _checked(
        self, model: Vector, images: Bytes, labels: ArrayLike, chosen: NDArray[np.int64]
    ) -> tuple[Vector, Bytes, NDArray[np.int64]]:
        """Return model, images and labels of the chosen images for the kernels, which check nothing."""
        shape, size, every = self.architecture.input_shape, self.architecture.parameters, np.asarray(labels)
        if every.shape != (len(images),):
            raise ValueError(f"{len(images)} images need as many labels, not {every.shape}")
        answers = read_only(every[chosen], np.int64)
        if answers.size and not 0 <= answers.min() <= answers.max() < self.architecture.classes:
            raise ValueError(f"labels must be 0 to {self.architecture.classes - 1}")
        if model.shape != (size,):
            raise ValueError(f"the model must have {size} numbers, not {model.shape}")
        if images.dtype != np.uint8 or images.shape[1:] != shape:
            raise ValueError(f"images must be uint8, [n, {shape[0]}, {shape[1]}, {shape[2]}]")
        pixels = images.reshape(len(images), prod(shape))
        return read_only(model, np.float32), read_only(pixels, np.uint8), answers
