"""FastCnn: training, gradient and evaluation of a network on kernels that are chosen by its layers.

The kernels check nothing. Images are [number, pixel], models in PyTorch's order; arrays that are read must be
read-only and contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.fastcnn import dense_passes, passes, wide_passes
from slotwise.fastcnn.architecture import LANES, Architecture, Workspace, make_plan, make_workspace
from slotwise.fastcnn.dense_layout import DenseWorkspace, make_dense_plan, make_dense_workspace
from slotwise.fastcnn.layers import LayerNetwork, as_architecture, as_layers
from slotwise.fastcnn.wide_layout import make_wide_plan
from slotwise.fastcnn.wide_plan import WideWorkspace, make_wide_workspace

Floats = NDArray[np.float32]
Images = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Kept = NDArray[np.bool_]
"""What dropout keeps, [..., step, sample, value]: the values of `dropout_rates` of the network."""
FEW_FILTERS = 16
"""With fewer filters in a convolution, samples are the lanes of vectors; otherwise channels are."""


class ConvolutionKernels:
    """Kernels of convolutions followed by dense layers (also right for dense layers alone)."""

    def __init__(self, architecture: Architecture, offset: Sequence[float], scale: Sequence[float]) -> None:
        self._architecture, self._size = architecture, architecture.parameters
        self._plan = make_plan(architecture, offset, scale)

    def make_workspace(self) -> Workspace:
        """Allocate the memory of one call."""
        return make_workspace(self._plan)

    def train_each(
        self, work: Workspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
        lengths: Numbers, kept: Kept | None, rates: Sequence[float],
    ) -> list[Floats]:  # fmt: skip
        """Return the models after one step per batch; batches and answers are [training, step, sample]."""
        trained = []
        factors = self._factors(batches.shape, kept)
        for own, labels, factor, rate in zip(batches, answers, factors, rates, strict=True):
            passes.descend(self._plan, work, model, images, own, labels, lengths, factor, float(rate))
            # A copy, because the next training overwrites the workspace.
            trained.append(self._as_model(work.parameters))
        return trained

    def gradient(
        self, work: Workspace, model: Floats, images: Images, answers: Numbers, kept: Kept | None
    ) -> tuple[float, Floats]:
        """Return the mean loss over the images, and its gradient."""
        everything = read_only(np.arange(len(images))[np.newaxis], np.int64)
        given = read_only(answers[np.newaxis], np.int64)
        factors, length = self._factors((1, 1, len(images)), kept)[0], read_only([len(images)], np.int64)
        # A step of size 0 is taken for the gradient that it leaves in the workspace.
        loss = passes.descend(self._plan, work, model, images, everything, given, length, factors, 0.0)
        return loss, self._as_model(work.gradient)

    def _factors(self, shape: tuple[int, ...], kept: Kept | None) -> Floats:
        """Return factors of activations as lanes, [training, step, block, lanes]; none without dropout."""
        trainings, steps, samples = shape
        blocks = -(-samples // LANES)
        if kept is None:
            return read_only(np.empty((trainings, steps, blocks, 0)), np.float32)
        channels, inputs = self._architecture.dropped_sizes
        values = channels + inputs
        given = kept.reshape(*shape, values)
        if not self._architecture.hidden:  # these inputs are a feature map, which lies channels last here
            maps = given[..., channels:].reshape(*shape, *self._architecture.feature_shapes[-1])
            moved = np.moveaxis(maps, 3, 5).reshape(*shape, inputs)
            given = np.concatenate([given[..., :channels], moved], axis=3)
        factors = np.zeros((trainings, steps, blocks * LANES, values), np.float32)
        np.multiply(given, np.float32(self._plan.keep_scale), out=factors[:, :, :samples])
        lanes = factors.reshape(trainings, steps, blocks, LANES, values).swapaxes(3, 4)
        return read_only(lanes.reshape(trainings, steps, blocks, values * LANES), np.float32)

    def evaluate(self, work: Workspace, model: Floats, images: Images, answers: Numbers) -> tuple[float, int]:
        """Return the sum of the losses, and the number of images classified correctly."""
        return passes.evaluate(self._plan, work, model, images, answers)

    def _as_model(self, values: Floats) -> Floats:
        model = np.empty(self._size, np.float32)
        passes.write_model(self._plan.source, values, model)
        return model


class DenseKernels:
    """Kernels of dense layers alone: multinomial logistic regression and MLPs."""

    def __init__(self, architecture: Architecture, offset: Sequence[float], scale: Sequence[float]) -> None:
        self._size = architecture.parameters
        self._plan = make_dense_plan(architecture, offset, scale)

    def make_workspace(self) -> DenseWorkspace:
        """Allocate the memory of one call."""
        return make_dense_workspace(self._plan)

    def train_each(
        self, work: DenseWorkspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
        lengths: Numbers, kept: Kept | None, rates: Sequence[float],  # noqa: ARG002
    ) -> list[Floats]:  # fmt: skip
        """Return the models after one step per batch; batches and answers are [training, step, sample]."""
        trained = np.empty((len(batches), self._size), np.float32)
        steps = np.array(rates, dtype=np.float64)
        dense_passes.descend_each(self._plan, work, model, images, batches, answers, lengths, steps, trained)
        return list(trained)

    def gradient(
        self,
        work: DenseWorkspace,
        model: Floats,
        images: Images,
        answers: Numbers,
        kept: Kept | None,  # noqa: ARG002
    ) -> tuple[float, Floats]:
        """Return the mean loss over the images, and its gradient."""
        gradient = np.empty(self._size, np.float32)
        loss = dense_passes.differentiate(self._plan, work, model, images, answers, gradient)
        return loss, gradient

    def evaluate(
        self, work: DenseWorkspace, model: Floats, images: Images, answers: Numbers
    ) -> tuple[float, int]:
        """Return the sum of the losses, and the number of images classified correctly."""
        return dense_passes.evaluate(self._plan, work, model, images, answers)


class WideKernels:
    """Kernels of wide layers, and of all kinds of layers that the others do not have."""

    def __init__(self, network: LayerNetwork, offset: Sequence[float], scale: Sequence[float]) -> None:
        self._size = network.parameters
        self._plan = make_wide_plan(network, offset, scale)

    def make_workspace(self) -> WideWorkspace:
        """Allocate the memory of one call."""
        return make_wide_workspace(self._plan)

    def train_each(
        self, work: WideWorkspace, model: Floats, images: Images, batches: Numbers, answers: Numbers,
        lengths: Numbers, kept: Kept | None, rates: Sequence[float],
    ) -> list[Floats]:  # fmt: skip
        """Return the models after one step per batch; batches and answers are [training, step, sample]."""
        trained = np.empty((len(batches), self._size), np.float32)
        masks = np.empty((*batches.shape, 0)) if kept is None else kept
        for own, labels, mask, rate, result in zip(batches, answers, masks, rates, trained, strict=True):
            known = (model, images, own, labels, lengths, read_only(mask, np.bool_))
            wide_passes.descend(self._plan, work, *known, float(rate), False, result)
        return list(trained)

    def gradient(
        self, work: WideWorkspace, model: Floats, images: Images, answers: Numbers, kept: Kept | None
    ) -> tuple[float, Floats]:
        """Return the mean loss over the images, and its gradient."""
        gradient, count = np.empty(self._size, np.float32), len(images)
        everything, given = np.arange(count)[np.newaxis], answers[np.newaxis]
        mask = np.empty((1, count, 0)) if kept is None else kept[np.newaxis]
        batch, labels, length = (read_only(each, np.int64) for each in (everything, given, [count]))
        known = (model, images, batch, labels, length, read_only(mask, np.bool_))
        return wide_passes.descend(self._plan, work, *known, 0.0, True, gradient), gradient

    def evaluate(
        self, work: WideWorkspace, model: Floats, images: Images, answers: Numbers
    ) -> tuple[float, int]:
        """Return the sum of the losses, and the number of images classified correctly."""
        return wide_passes.evaluate(self._plan, work, model, images, answers)


Kernels = ConvolutionKernels | DenseKernels | WideKernels


def choose_kernels(
    network: Architecture | LayerNetwork, offset: Sequence[float], scale: Sequence[float]
) -> Kernels:
    """Return the kernels that are fastest for a network; which they are does not depend on the machine."""
    known = network if isinstance(network, Architecture) else as_architecture(network)
    if known is None:
        assert isinstance(network, LayerNetwork)
        return WideKernels(network, offset, scale)
    if not known.convolutions and not known.dropout:
        return DenseKernels(known, offset, scale)
    filters = [count for count, _ in known.convolutions]
    # As layers, dropout of images and of values before the only dense layer would be two of one map.
    if min(filters, default=0) >= FEW_FILTERS and (known.hidden or not known.dropout):
        return WideKernels(as_layers(known), offset, scale)
    return ConvolutionKernels(known, offset, scale)


def read_only(array: Any, kind: type[np.generic]) -> NDArray[Any]:
    """Return a read-only view: for writable arrays, numba would compile the kernels a second time."""
    view = np.require(array, kind, ["C", "A"]).view()
    view.flags.writeable = False
    return view


class FastCnn:
    """A network, for models given as flat float32 vectors in PyTorch's order.

    `choose_kernels` says which kernels compute it. A call
    uses one core and releases the interpreter lock, so several threads can call at once. The result depends
    on the arguments only, to the last bit.
    """

    def __init__(
        self, architecture: Architecture | LayerNetwork, *, offset: Sequence[float], scale: Sequence[float]
    ) -> None:
        """Standardise a pixel x of channel c (0..255) as (x / 255 - offset[c]) / scale[c]."""
        channels = architecture.input_shape[0]
        if len(offset) != channels or len(scale) != channels:
            raise ValueError(f"offset and scale need one number for each of the {channels} channels")
        if not all(deviation > 0 for deviation in scale):
            raise ValueError(f"scale must be positive, not {list(scale)}")
        self.architecture = architecture
        self._kernels = choose_kernels(architecture, offset, scale)
        self._idle: list[Any] = []

    def train_each(
        self, model: Floats, images: Images, labels: ArrayLike, batches: ArrayLike, rates: Sequence[float],
        kept: Kept | None = None, lengths: ArrayLike | None = None,
    ) -> list[Floats]:  # fmt: skip
        """Do several trainings from one model: a step of gradient descent on the mean loss of each batch.

        `batches` is [trainings, steps, batch]: numbers of images. A step uses the first of them, as many as
        its entry in `lengths` says; without it, all.

        `kept` says what dropout keeps, [trainings, steps, batch, values]. Without it nothing is dropped.
        """
        steps = read_only(batches, np.int64)
        if steps.ndim != 3 or steps.shape[2] == 0:
            wanted = "[trainings, steps, batch], at least one sample"
            raise ValueError(f"batches must be {wanted}, not {list(steps.shape)}")
        if steps.size and not 0 <= steps.min() <= steps.max() < len(images):
            raise ValueError(f"batches must hold numbers of images, 0 to {len(images) - 1}")
        start, pixels, answers = self._checked(model, images, labels, steps)
        self._check_kept(kept, steps.shape)
        count, most = steps.shape[1:]
        used = read_only(np.full(count, most) if lengths is None else lengths, np.int64)
        if used.shape != (count,) or (count and not 1 <= used.min() <= used.max() <= most):
            raise ValueError(f"lengths must be {count} numbers from 1 to {most}")
        with self._workspace() as work:
            return self._kernels.train_each(work, start, pixels, steps, answers, used, kept, rates)

    def gradient(
        self, model: Floats, images: Images, labels: ArrayLike, kept: Kept | None = None
    ) -> tuple[float, Floats]:
        """Return the mean cross-entropy over the images, and its gradient as a model vector.

        `kept` is [images, values], see `train_each`.
        """
        if len(images) == 0:
            raise ValueError("a gradient needs at least one image")
        given = self._checked(model, images, labels, np.arange(len(images)))
        self._check_kept(kept, (len(images),))
        with self._workspace() as work:
            return self._kernels.gradient(work, *given, kept)

    def evaluate(self, model: Floats, images: Images, labels: ArrayLike) -> tuple[float, int]:
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
        wanted = (*shape, len(self.architecture.dropout_rates))
        if kept is not None and (kept.shape != wanted or not wanted[-1]):
            raise ValueError(f"kept must be {list(wanted)}, and omitted without dropout: {list(kept.shape)}")

    def _checked(
        self, model: Floats, images: Images, labels: ArrayLike, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Images, NDArray[np.int64]]:
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
