"""Kernels of a network, chosen by its layers: training, gradient and evaluation in a given workspace.

Arguments are not checked here, see `FastCnn`. Arrays that are read must be read-only and contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn import dense_passes, passes
from slotwise.learning.fastcnn.architecture import LANES, Architecture, Workspace, make_plan, make_workspace
from slotwise.learning.fastcnn.dense_layout import DenseWorkspace, make_dense_plan, make_dense_workspace

Floats = NDArray[np.float32]
Images = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Kept = NDArray[np.bool_]
"""What dropout keeps, [..., step, sample, value]: channels of the last convolution, then inputs of the last
dense layer in PyTorch's order."""


class Kernels(Protocol):
    """Compiled functions for one network. Images are [number, pixel], models in PyTorch's order."""

    def make_workspace(self) -> Any:
        """Allocate the memory of one call."""

    def train_each(
        self, work: Any, model: Floats, images: Images, batches: Numbers, answers: Numbers, kept: Kept | None,
        rates: Sequence[float],
    ) -> list[Floats]:  # fmt: skip
        """Return the models after one step per batch; batches and answers are [training, step, sample]."""

    def gradient(
        self, work: Any, model: Floats, images: Images, answers: Numbers, kept: Kept | None
    ) -> tuple[float, Floats]:
        """Return the mean loss over the images, and its gradient."""

    def evaluate(self, work: Any, model: Floats, images: Images, answers: Numbers) -> tuple[float, int]:
        """Return the sum of the losses, and the number of images classified correctly."""


def make_kernels(architecture: Architecture, offset: Sequence[float], scale: Sequence[float]) -> Kernels:
    """Return the kernels of a network; a pixel x of channel c becomes (x / 255 - offset[c]) / scale[c]."""
    # The dense kernels have no dropout.
    kind = ConvolutionKernels if architecture.convolutions or architecture.dropout else DenseKernels
    return kind(architecture, offset, scale)


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
        kept: Kept | None, rates: Sequence[float],
    ) -> list[Floats]:  # fmt: skip
        """Return the models after one step per batch; batches and answers are [training, step, sample]."""
        trained = []
        factors = self._factors(batches.shape, kept)
        for own, labels, factor, rate in zip(batches, answers, factors, rates, strict=True):
            passes.descend(self._plan, work, model, images, own, labels, factor, float(rate))
            # A copy, because the next training overwrites the workspace.
            trained.append(self._as_model(work.parameters))
        return trained

    def gradient(
        self, work: Workspace, model: Floats, images: Images, answers: Numbers, kept: Kept | None
    ) -> tuple[float, Floats]:
        """Return the mean loss over the images, and its gradient."""
        everything = read_only(np.arange(len(images))[np.newaxis], np.int64)
        given = read_only(answers[np.newaxis], np.int64)
        factors = self._factors((1, 1, len(images)), kept)[0]
        # A step of size 0 is taken for the gradient that it leaves in the workspace.
        loss = passes.descend(self._plan, work, model, images, everything, given, factors, 0.0)
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
        kept: Kept | None, rates: Sequence[float],  # noqa: ARG002
    ) -> list[Floats]:  # fmt: skip
        """Return the models after one step per batch; batches and answers are [training, step, sample]."""
        trained = np.empty((len(batches), self._size), np.float32)
        steps = np.array(rates, dtype=np.float64)
        dense_passes.descend_each(self._plan, work, model, images, batches, answers, steps, trained)
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


def read_only(array: Any, kind: type[np.generic]) -> NDArray[Any]:
    """Return a read-only view: for writable arrays, numba would compile the kernels a second time."""
    view = np.require(array, kind, ["C", "A"]).view()
    view.flags.writeable = False
    return view
