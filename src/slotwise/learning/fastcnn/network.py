"""A small convolutional network that trains, differentiates and classifies on one core per call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.learning.fastcnn import passes
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.fastcnn.plan import Workspace, make_plan, make_workspace

Floats = NDArray[np.float32]
Images = NDArray[np.uint8]


class FastCnn:
    """The network of an `Architecture`, for models given as flat float32 vectors in PyTorch's order.

    A call uses one core and does not hold the interpreter lock; several threads can call at once. What a call
    returns depends on its arguments only, to the last bit.
    """

    def __init__(
        self, architecture: Architecture, *, offset: Sequence[float], scale: Sequence[float]
    ) -> None:
        """A pixel x of channel c (0..255) enters the network as (x / 255 - offset[c]) / scale[c]."""
        channels = architecture.input_shape[0]
        if len(offset) != channels or len(scale) != channels:
            raise ValueError(f"offset and scale need one number for each of the {channels} channels")
        if not all(deviation > 0 for deviation in scale):
            raise ValueError(f"scale must be positive, not {list(scale)}")
        self.architecture = architecture
        self._plan = make_plan(architecture, offset, scale)
        self._idle: list[Workspace] = []

    def train(
        self, model: Floats, images: Images, labels: ArrayLike, batches: ArrayLike, learning_rate: float
    ) -> Floats:
        """Take one step of gradient descent on the mean cross-entropy of each batch; return the new model.

        `batches` is [steps, batch]: numbers of images.
        """
        steps = _frozen(batches, np.int64)
        if steps.ndim != 2 or steps.shape[1] == 0:
            raise ValueError(
                f"batches must be [steps, batch] with at least one sample, not {list(steps.shape)}"
            )
        if steps.size and not 0 <= steps.min() <= steps.max() < len(images):
            raise ValueError(f"batches must hold numbers of images, 0 to {len(images) - 1}")
        answers = self._answers(labels, len(images), steps)
        with self._workspace() as work:
            passes.descend(
                self._plan, work, *self._given(model, images), steps, answers, float(learning_rate)
            )
            return self._as_model(work.parameters)

    def gradient(self, model: Floats, images: Images, labels: ArrayLike) -> tuple[float, Floats]:
        """Mean cross-entropy over the images, and its gradient as a model vector."""
        if len(images) == 0:
            raise ValueError("a gradient needs at least one image")
        everything = _frozen(np.arange(len(images))[np.newaxis], np.int64)
        answers = self._answers(labels, len(images), everything)
        with self._workspace() as work:
            loss = passes.descend(self._plan, work, *self._given(model, images), everything, answers, 0.0)
            return loss, self._as_model(work.gradient)

    def evaluate(self, model: Floats, images: Images, labels: ArrayLike) -> tuple[float, int]:
        """Sum of the cross-entropies over the images, and how many are classified correctly."""
        answers = self._answers(labels, len(images), np.arange(len(images)))
        with self._workspace() as work:
            return passes.evaluate(self._plan, work, *self._given(model, images), answers)

    def __getstate__(self) -> dict[str, object]:
        """Everything but the workspaces, which another process makes for itself."""
        return {**self.__dict__, "_idle": []}

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        """Room to compute in: what an earlier call left behind, or new if all of that is in use."""
        try:
            work = self._idle.pop()
        except IndexError:
            work = make_workspace(self._plan)
        try:
            yield work
        finally:
            self._idle.append(work)

    def _as_model(self, values: Floats) -> Floats:
        model = np.empty(self.architecture.parameters, np.float32)
        passes.write_model(self._plan.source, values, model)
        return model

    def _given(self, model: Floats, images: Images) -> tuple[Floats, Images]:
        """Model and images for the kernels, which check nothing themselves."""
        shape = self.architecture.input_shape
        if model.shape != (self.architecture.parameters,):
            raise ValueError(f"the model must have {self.architecture.parameters} numbers, not {model.shape}")
        if images.dtype != np.uint8 or images.shape[1:] != shape:
            raise ValueError(f"images must be uint8, [n, {shape[0]}, {shape[1]}, {shape[2]}]")
        return _frozen(model, np.float32), _frozen(images.reshape(len(images), prod(shape)), np.uint8)

    def _answers(self, labels: ArrayLike, images: int, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels of the chosen images, for the kernels."""
        every = np.asarray(labels)
        if every.shape != (images,):
            raise ValueError(f"{images} images need as many labels, not {every.shape}")
        answers = _frozen(every[chosen], np.int64)
        if answers.size and not 0 <= answers.min() <= answers.max() < self.architecture.classes:
            raise ValueError(f"labels must be 0 to {self.architecture.classes - 1}")
        return answers


def _frozen(array: ArrayLike, kind: type[np.generic]) -> NDArray[Any]:
    """A read-only view: with writable and read-only arrays both, the kernels would be compiled for each."""
    view = np.require(array, kind, ["C", "A"]).view()
    view.flags.writeable = False
    return view
