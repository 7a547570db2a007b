"""A small convolutional network that trains, differentiates and classifies on one core per call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.learning.fastcnn import passes
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.fastcnn.plan import Workspace, make_plan, make_workspace

Floats = NDArray[np.float32]
Images = NDArray[np.uint8]


class FastCnn:
    """The network of an `Architecture`, for models given as flat float32 vectors in PyTorch's order.

    Calls use one core, hold no interpreter lock, and can be made from several threads at once: the result of a
    call depends on its arguments only, to the last bit.
    """

    def __init__(
        self, architecture: Architecture, *, offset: Sequence[float], scale: Sequence[float]
    ) -> None:
        """A pixel x of channel c (0..255) enters the network as (x / 255 - offset[c]) / scale[c]."""
        channels = architecture.input_shape[0]
        if len(offset) != channels or len(scale) != channels:
            raise ValueError(f"offset and scale need one number for each of {channels} channels")
        self.architecture = architecture
        self._plan = make_plan(architecture, offset, scale)
        self._idle: list[Workspace] = []

    def train(
        self, model: Floats, images: Images, labels: ArrayLike, batches: ArrayLike, learning_rate: float
    ) -> Floats:
        """Take one step of gradient descent on the mean cross-entropy of each batch; return the new model.

        A batch is a row of `batches`: numbers of images.
        """
        pixels, answers = self._checked(model, images, labels)
        steps = np.ascontiguousarray(batches, np.int64)
        if steps.ndim != 2 or steps.shape[1] == 0:
            raise ValueError(f"batches must be [steps, batch] with at least one sample, not {steps.shape}")
        if steps.size and (steps.min() < 0 or steps.max() >= len(images)):
            raise ValueError(f"batches must number images, 0 to {len(images) - 1}")
        with self._workspace() as work:
            return passes.train(
                self._plan, work, _flat(model), pixels, answers, steps, np.float32(learning_rate)
            )

    def gradient(self, model: Floats, images: Images, labels: ArrayLike) -> tuple[float, Floats]:
        """Mean cross-entropy over the images, and its gradient as a model vector."""
        pixels, answers = self._checked(model, images, labels)
        if len(pixels) == 0:
            raise ValueError("a gradient needs at least one image")
        with self._workspace() as work:
            return passes.gradient(self._plan, work, _flat(model), pixels, answers)

    def evaluate(self, model: Floats, images: Images, labels: ArrayLike) -> tuple[float, int]:
        """Sum of the cross-entropies over the images, and how many are classified correctly."""
        pixels, answers = self._checked(model, images, labels)
        with self._workspace() as work:
            return passes.evaluate(self._plan, work, _flat(model), pixels, answers)

    def __getstate__(self) -> dict[str, object]:
        """Everything but the workspaces, which another process makes for itself."""
        return {**self.__dict__, "_idle": []}

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        """Room to compute in: one left by an earlier call, or new if all are in use."""
        try:
            work = self._idle.pop()
        except IndexError:
            work = make_workspace(self._plan)
        try:
            yield work
        finally:
            self._idle.append(work)

    def _checked(self, model: Floats, images: Images, labels: ArrayLike) -> tuple[Images, NDArray[np.int64]]:
        """The kernels' view of images and labels. They do not check anything, so everything is checked here."""
        shape, classes = self.architecture.input_shape, self.architecture.classes
        if model.shape != (self.architecture.parameters,):
            raise ValueError(f"the model has shape {model.shape}, not ({self.architecture.parameters},)")
        if images.dtype != np.uint8 or images.shape[1:] != shape:
            raise ValueError(f"images must be uint8 of shape [n, {', '.join(map(str, shape))}]")
        answers = np.ascontiguousarray(labels, np.int64)
        if answers.shape != (len(images),):
            raise ValueError(f"{len(images)} images need as many labels, not {answers.shape}")
        if answers.size and (answers.min() < 0 or answers.max() >= classes):
            raise ValueError(f"labels must be 0 to {classes - 1}")
        return np.ascontiguousarray(images).reshape(len(images), -1), answers


def _flat(model: Floats) -> Floats:
    return np.ascontiguousarray(model, np.float32)
