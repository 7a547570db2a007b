"""TorchTask: any torch.nn.Module as a Task. Needs the extra ``slotwise[torch]``.

A model is the module's parameters as one flat float32 vector. Each worker thread has its own copy of the
module and one intra-op thread: parallel local trainings are faster than parallel operations. Images are kept
channels-last, which the CPU's convolution kernels prefer.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import Evaluation, TrainingStart

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.utils import parameters_to_vector
except ModuleNotFoundError:
    raise UserError("PyTorch is not installed: pip install 'slotwise[torch]'") from None

Loss = Callable[[Tensor, Tensor], Tensor]
CHUNK = 2048  # images of an evaluation at once


class TorchTask:
    """Image classification with any module and loss.

    The module must not draw random numbers while it trains (no dropout): an update has to be a function of
    the model, the device and the number of its training. Buffers, such as the statistics of a batch
    normalisation, are not part of the model and are refused.
    """

    def __init__(
        self,
        module: nn.Module,
        samples: DeviceSamples,
        training: LocalTraining,
        *,
        loss: Loss = nn.functional.cross_entropy,
        offset: tuple[float, ...] | None = None,
        scale: tuple[float, ...] | None = None,
        device: str | None = None,
    ) -> None:
        """Compute on the torch device ``device``; by default the GPU if there is one."""
        if any(True for _ in module.buffers()):
            what = "buffers (batch normalisation?), which are not part of an update"
            raise UserError(f"TorchTask: the module has {what}")
        self.samples, self.training, self._loss = samples, training, loss
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._module = copy.deepcopy(module).to(self._device)
        dataset = samples.dataset
        self._offset = self._per_channel(offset or dataset.offset)
        self._scale = self._per_channel(scale or dataset.scale)
        self._local = threading.local()

    def initial_model(self) -> Vector:
        """Return parameters drawn from the seed: uniform in ±1/sqrt(fan-in), layer after layer."""
        draw = generator(self.training.seed, Purpose.MODEL)
        parts, bound = [], 1.0
        for parameter in self._module.parameters():
            if parameter.dim() > 1:
                bound = 1.0 / float(np.sqrt(parameter[0].numel()))
            parts.append(draw.uniform(-bound, bound, parameter.numel()))
        return np.concatenate(parts).astype(np.float32)

    def sample_count(self, device: int) -> int:
        """Return the number of samples that a device holds."""
        return self.samples.count(device)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        """Return w_start − w_end of H steps of SGD on the device's samples."""
        module, before = self._worker_module(model)
        rows = self.samples.batches(self.training, start)
        images, labels = self._training_data(rows.ravel())
        parameters = list(module.parameters())
        steps = zip(torch.split(images, rows.shape[1]), torch.split(labels, rows.shape[1]), strict=True)
        for batch, answers in steps:
            gradients = torch.autograd.grad(self._loss(module(batch), answers), parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(gradient, alpha=self.training.rate_at(start))
        with torch.no_grad():
            update = (before - parameters_to_vector(parameters)) / self.training.divisor
        result: Vector = update.cpu().numpy()
        return result

    @torch.no_grad()
    def evaluate(self, model: Vector) -> Evaluation:
        """Return the mean loss over the union of the devices' data, and the accuracy on the test images."""
        module, _ = self._worker_module(model)
        dataset, union = self.samples.dataset, self.samples.union
        loss = 0.0
        for first in range(0, len(union), CHUNK):
            rows = union[first : first + CHUNK]
            images, answers = self._training_data(rows)
            loss += len(rows) * float(self._loss(module(images), answers))
        correct = 0
        for first in range(0, len(dataset.test_targets), CHUNK):
            part = slice(first, first + CHUNK)
            guesses = module(self._images(dataset.test_inputs[part])).argmax(dim=1).cpu().numpy()
            correct += int((guesses == dataset.test_targets[part]).sum())
        return Evaluation(loss / len(union), correct / len(dataset.test_targets))

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays by their names in the module's state_dict."""
        parameters = list(self._module.named_parameters())
        parts = np.split(model, np.cumsum([parameter.numel() for _, parameter in parameters])[:-1])
        shaped = zip(parameters, parts, strict=True)
        return {name: part.reshape(tuple(parameter.shape)) for (name, parameter), part in shaped}

    @torch.no_grad()
    def _worker_module(self, model: Vector) -> tuple[nn.Module, Tensor]:
        """Return this thread's copy of the module with the parameters of a model, and the model."""
        if not hasattr(self._local, "module"):
            torch.set_num_threads(1)  # a setting of the thread, so each worker makes it
            self._local.module = copy.deepcopy(self._module)
        vector = torch.from_numpy(np.array(model)).to(self._device)
        parameters = list(self._local.module.parameters())
        parts = torch.split(vector, [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.copy_(part.view(parameter.shape))
        return self._local.module, vector

    def _training_data(self, rows: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        """Return images and labels of some rows of the data set."""
        dataset = self.samples.dataset
        labels = torch.from_numpy(dataset.train_targets[rows].astype(np.int64)).to(self._device)
        return self._images(dataset.train_inputs[rows]), labels

    def _images(self, pixels: NDArray[np.uint8]) -> Tensor:
        writable = np.require(pixels, requirements="W")  # torch warns of data sets that are read-only
        images = torch.from_numpy(writable).to(self._device).to(torch.float32)
        images = (images / 255 - self._offset) / self._scale
        return images.contiguous(memory_format=torch.channels_last)

    def _per_channel(self, numbers: tuple[float, ...]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.float32, device=self._device).view(1, -1, 1, 1)


def sequential(architecture: Architecture) -> nn.Sequential:
    """Return the built-in network as a torch module; a flat vector is the same model in both."""
    layers: list[nn.Module] = []
    channels = architecture.input_shape[0]
    for out, kernel in architecture.convolutions:
        layers += [nn.Conv2d(channels, out, kernel), nn.MaxPool2d(2), nn.ReLU()]
        channels = out
    layers.append(nn.Flatten())
    for inputs, outputs in architecture.dense_sizes:
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
