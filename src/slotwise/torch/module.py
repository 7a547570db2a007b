"""FlatModule: a copy of a torch module whose weights are one flat tensor, and the order of a model's numbers.

A model is the trained parameters, then the statistics that travel, in the order of the module.
"""

from __future__ import annotations

import copy
import ctypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_error
from slotwise.learning.randomness import Purpose, generator

Buffers = Literal["local", "average", "refuse"]
Shapes = Mapping[str, tuple[int, ...]]
BatchNorm = nn.modules.batchnorm._BatchNorm


class Buffer(NamedTuple):
    """A buffer of a module: the layer that owns it, and its name there."""

    owner: nn.Module
    name: str
    persistent: bool

    @property
    def value(self) -> Tensor:
        """The tensor, which a layer may replace."""
        value = self.owner._buffers[self.name]
        assert value is not None
        return value

    def set(self, value: Tensor) -> None:
        """Replace the tensor in its layer."""
        self.owner._buffers[self.name] = value


class Layout:
    """The arrays of a model: which tensors of a module they are, and their order.

    Attributes:
        parameters: Shapes of the trained parameters by name.
        statistics: Shapes of the buffers that travel with them.
    """

    def __init__(self, module: nn.Module, buffers: Buffers) -> None:
        """Take the trained parameters of a module, and its floating-point buffers if they are averaged."""
        trained = {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}
        floating = {
            name: buffer.value
            for name, buffer in named_buffers(module).items()
            if buffer.persistent and buffer.value.is_floating_point()
        }
        if any(isinstance(tensor, nn.parameter.UninitializedParameter) for tensor in trained.values()):
            raise UserError("TorchTask: the module has lazy layers; call it with one batch first")
        if not trained:
            raise UserError("TorchTask: the module has no parameters that are trained (requires_grad)")
        if floating and buffers == "refuse":
            names = ", ".join(list(floating)[:3])
            raise UserError(f"TorchTask: the module has buffers ({names}), and buffers='refuse' is given")
        statistics = floating if buffers == "average" else {}
        for name, tensor in (trained | statistics).items():
            if tensor.dtype != torch.float32:
                found = str(tensor.dtype).removeprefix("torch.")
                raise UserError(f"TorchTask: {name} is {found}, must be float32 (module.float() converts)")
        self.parameters: Shapes = {name: tuple(tensor.shape) for name, tensor in trained.items()}
        self.statistics: Shapes = {name: tuple(tensor.shape) for name, tensor in statistics.items()}
        self.weights = sum(map(prod, self.parameters.values()))
        """Numbers that are trained; statistics come after them."""

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays of a model by name."""
        shapes = {**self.parameters, **self.statistics}
        parts = np.split(model, np.cumsum([prod(shape) for shape in shapes.values()])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


class FlatModule:
    """A copy of a module for one thread: its weights are views of one tensor, their gradients of another.

    A step of an optimiser is then one operation, however many layers there are.

    Attributes:
        module: The copy.
        device: Torch device of its tensors.
        weights: All trained parameters.
        gradient: Their gradients; a backward pass adds to them.
    """

    def __init__(self, module: nn.Module, layout: Layout) -> None:
        self.module = copy_module(module)
        self._layout = layout
        own = dict(self.module.named_parameters())
        self.device = next(iter(own.values())).device
        self.weights = torch.zeros(layout.weights, device=self.device)
        self.gradient = torch.zeros(layout.weights, device=self.device)
        at = 0
        for name, shape in layout.parameters.items():
            part = slice(at, at + prod(shape))
            # Autograd adds in place to a gradient that exists. So gradients are set to zero between steps and
            # never to None, which would replace these views.
            own[name].data = self.weights[part].view(shape)
            own[name].grad = self.gradient[part].view(shape)
            at = part.stop
        buffers = named_buffers(self.module)
        self._statistics = [buffers.pop(name) for name in layout.statistics]
        # Buffers that do not travel start every training with the values they have in the user's module.
        self._others = [(buffer, buffer.value.clone()) for buffer in buffers.values()]
        self.module.train()
        # Layers that stay in evaluation on purpose keep their statistics.
        trained = [layer for layer in self.module.modules() if layer.training]
        self._norms = [(layer, layer.momentum) for layer in trained if isinstance(layer, BatchNorm)]

    @torch.no_grad()
    def load(self, model: Vector) -> None:
        """Take the numbers of a model."""
        # A copy, because models are read-only, and torch does not support read-only memory.
        numbers = torch.from_numpy(np.array(model, dtype=np.float32)).to(self.device)
        self.weights.copy_(numbers[: self._layout.weights])
        at = self._layout.weights
        for buffer, shape in zip(self._statistics, self._layout.statistics.values(), strict=True):
            buffer.set(numbers[at : at + prod(shape)].view(shape).clone())
            at += prod(shape)
        # Layers change their buffers in place; the saved values must stay.
        for buffer, value in self._others:
            buffer.set(value.clone())

    @torch.no_grad()
    def update(self, model: Vector, divisor: int) -> Vector:
        """Return ``model`` minus the present numbers; weights are divided by ``divisor``, statistics not."""
        statistics = [buffer.value.detach().reshape(-1).float() for buffer in self._statistics]
        now = torch.cat([self.weights, *statistics]).cpu().numpy()
        update: Vector = model - now
        if divisor != 1:
            update[: self._layout.weights] /= divisor
        return update

    def collect_statistics(self) -> None:
        """Let batch normalisations normalise by their batch, and average its statistics from now on."""
        for layer, _ in self._norms:
            if layer.track_running_stats:
                layer.reset_running_stats()
                # Without a momentum torch keeps the mean over all batches, each with the same weight.
                layer.momentum = None
                layer.train()

    def use_statistics(self) -> None:
        """Let batch normalisations use their statistics; stale updates can make a variance negative."""
        for layer, _ in self._norms:
            layer.eval()
            if layer.running_var is not None:
                layer.running_var.clamp_(min=0)

    def train(self) -> None:
        """Switch all layers to training."""
        self.module.train()
        for layer, momentum in self._norms:
            layer.momentum = momentum

    def eval(self) -> None:
        """Switch all layers to evaluation."""
        self.module.eval()


def copy_module(module: nn.Module) -> nn.Module:
    """Return a copy of a module; a UserError if it cannot be copied, or is compiled by TorchScript.

    TorchScript keeps weights of its own, so that a copy would not use the flat tensor.
    """
    scripted = [name for name, layer in module.named_modules() if isinstance(layer, torch.jit.ScriptModule)]
    if scripted:
        place = f"layer {scripted[0]}" if scripted[0] else "the module"
        raise UserError(
            f"TorchTask: {place} is compiled by TorchScript; give the Python module it was made of"
        )
    try:
        return copy.deepcopy(module)
    except Exception as error:  # each thread needs a copy
        raise UserError(
            f"TorchTask: the module cannot be copied: {describe_error(error)}; keep only layers, parameters"
            " and buffers in it (for weight_norm, that of torch.nn.utils.parametrizations)"
        ) from error


def named_buffers(module: nn.Module) -> dict[str, Buffer]:
    """Return the buffers of a module by name, each tensor once."""
    return dict(_each_buffer(module))


def _each_buffer(module: nn.Module) -> Iterator[tuple[str, Buffer]]:
    seen: set[int] = set()
    for prefix, owner in module.named_modules():
        for name, value in owner._buffers.items():
            if value is not None and id(value) not in seen:
                seen.add(id(value))
                persistent = name not in owner._non_persistent_buffers_set
                yield f"{prefix}.{name}".lstrip("."), Buffer(owner, name, persistent)


@torch.no_grad()
def draw_parameters(module: nn.Module, seed: int) -> None:
    """Draw weights and biases uniformly in ±1/sqrt(fan-in), layer after layer; leave normalisations as is."""
    draw = generator(seed, Purpose.MODEL)
    for layer in module.modules():
        own = [parameter for parameter in layer.parameters(recurse=False) if parameter.requires_grad]
        if all(parameter.dim() < 2 for parameter in own):
            continue  # the scale and shift of a normalisation
        bound = 1.0
        for parameter in own:
            # A bias follows its weight and is drawn with the same bound.
            if parameter.dim() > 1:
                bound = 1.0 / float(np.sqrt(parameter[0].numel()))
            numbers = draw.uniform(-bound, bound, parameter.numel()).astype(np.float32)
            parameter.copy_(torch.from_numpy(numbers).view(parameter.shape))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one intra-op thread, a setting of each thread; restore that of the main thread."""
    before = torch.get_num_threads()
    if before > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if before > 1 and threading.current_thread() is threading.main_thread():
            torch.set_num_threads(before)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next step instead of returning it to the system.

    Every step allocates the same tensors again. Memory that was returned has to be mapped and cleared each
    time, which takes a fifth of a step of a small network. Only glibc has this setting.
    """
    trim_threshold, mmap_threshold = -1, -3  # numbers of options in malloc.h
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # 32 MiB is the documented upper limit of this threshold on 64-bit systems.
        mallopt(mmap_threshold, 32 << 20)
        mallopt(trim_threshold, 512 << 20)
