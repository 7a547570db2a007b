"""Which torch modules the compiled kernels can train, and the task that does.

A module is compiled if it is a chain of convolutions, each with a max-pool of 2 and a ReLU, and dense layers
with ReLUs between them, as a ``Sequential`` or in the ``forward`` of a module that torch.fx can follow. What
its layers say is not trusted alone: the gradient of one batch must be torch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.extras import is_installed
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.torch.objective import Objective

TOLERANCE = 1e-3  # of a gradient, relative to its norm: float32 in another order of the sums
_RELUS = (functional.relu, torch.relu, torch.relu_, "relu", "relu_")
_FLATTENS = (torch.flatten, torch.reshape, "flatten", "view", "reshape")
_SIZES = ("size", getattr, operator.getitem)  # x.size(0) and x.shape[0], for a view


class NotCompiled(Exception):
    """A module that the kernels cannot train; the message says why."""


class Layer(NamedTuple):
    """One operation of a module: its kind, and the torch layer that has its parameters."""

    kind: str
    name: str = ""
    module: nn.Module | None = None
    size: tuple[int, int] = (0, 0)  # channels and kernel of a convolution, units of a dense layer
    rate: float = 0.0  # of dropout


def find_architecture(module: nn.Module, input_shape: tuple[int, ...]) -> tuple[Architecture, bool]:
    """Return the network that a module is, and whether it ends in a log-softmax.

    Raises:
        NotCompiled: it is none that the kernels have.
    """
    if len(input_shape) != 3:
        raise NotCompiled("inputs are not images [channels, height, width]")
    layers = list(_layers(module))
    shaped = [layer for layer in layers if layer.module is not None]
    used = [f"{layer.name}.{kind}" for layer in shaped for kind in ("weight", "bias")]
    if used != [name for name, parameter in module.named_parameters() if parameter.requires_grad]:
        raise NotCompiled("parameters are declared in another order than they are used, or not trained")
    filters = [layer.size for layer in layers if layer.kind == "conv"]
    units = [layer.size[0] for layer in layers if layer.kind == "linear"]
    dropout, normalised = _check_order(layers, len(filters), len(units))
    channels, height, width = input_shape
    try:
        found = Architecture((channels, height, width), tuple(filters), tuple(units[:-1]), units[-1], dropout)
    except ValueError as error:
        raise NotCompiled(str(error)) from None
    if list(found.parameter_shapes) != [tuple(parameter.shape) for parameter in module.parameters()]:
        raise NotCompiled("layers do not fit images of this size")
    return found, normalised


def _check_order(layers: list[Layer], convolutions: int, dense: int) -> tuple[float, bool]:
    """Raise NotCompiled for layers in another order; return the dropout, and if a log-softmax is the last."""
    kinds = [layer.kind for layer in layers]
    normalised = kinds[-1:] == ["log_softmax"]
    kinds = kinds[: len(kinds) - normalised]
    rates = {layer.rate for layer in layers if layer.kind in ("channel dropout", "dropout")}
    dropped = [place for place, kind in enumerate(kinds) if kind in ("channel dropout", "dropout")]
    plain = [kind for kind in kinds if kind not in ("channel dropout", "dropout")]
    for block in range(convolutions):
        first, *others = plain[3 * block : 3 * block + 3]
        if first != "conv" or sorted(others) != ["pool", "relu"]:
            raise NotCompiled("every Conv2d must be followed by a MaxPool2d(2) and a ReLU")
    if not dense or plain[3 * convolutions :] != ["flatten", *["linear", "relu"] * dense][:-1]:
        raise NotCompiled("after convolutions must come Flatten, and Linear layers with ReLUs between them")
    if not dropped:
        return 0.0, normalised
    # After the last convolution and before the last dense layer, as in the kernels.
    wanted = [3 * convolutions - 2] * bool(convolutions) + [len(kinds) - 2]
    if dropped != wanted or len(rates) != 1 or (convolutions and kinds[dropped[0]] != "channel dropout"):
        raise NotCompiled(
            "dropout must be Dropout2d after the last Conv2d and Dropout before the last Linear"
        )
    return rates.pop(), normalised


def _layers(module: nn.Module) -> Iterator[Layer]:
    """Yield the operations of a module, which must be a chain."""
    try:
        graph = fx.symbolic_trace(module)
    except Exception as error:  # torch.fx raises anything where a forward does not only call layers
        raise NotCompiled(f"torch.fx cannot follow its forward ({type(error).__name__})") from None
    inside = dict(graph.named_modules())
    last: fx.Node | None = None
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            if last is not None:
                raise NotCompiled("it has several inputs")
            last = node
        elif node.op == "output":
            if node.args[0] is not last:
                raise NotCompiled("it does not return the output of its last layer")
        elif node.target in _SIZES:
            continue
        else:
            if not node.args or node.args[0] is not last:
                raise NotCompiled(f"{node.name} does not take the output of the layer before it")
            last = node
            if (layer := _layer(node, inside)) is not None:
                yield layer


def _layer(node: fx.Node, inside: dict[str, nn.Module]) -> Layer | None:
    """Return the operation of a node of the graph; None if it changes nothing."""
    if node.op == "call_module":
        return _module_layer(str(node.target), inside[str(node.target)])
    if node.target in _RELUS:
        return Layer("relu")
    if node.target in _FLATTENS:
        return Layer("flatten")
    if node.target in (functional.log_softmax, torch.log_softmax, "log_softmax"):
        return _log_softmax(node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None), node.name)
    if node.target in (functional.dropout, functional.dropout2d):
        raise NotCompiled(f"{node.name} is a function; a layer such as nn.Dropout can be compiled")
    if node.target in (functional.max_pool2d, torch.max_pool2d):
        rest = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **node.kwargs}
        given = dict(zip(("kernel_size", *rest), node.args[1:], strict=False))
        return _pool(nn.MaxPool2d(**{**rest, **given}), node.name)  # type: ignore[arg-type]
    raise NotCompiled(f"{node.name} is not a Conv2d, MaxPool2d, ReLU, Flatten or Linear")


def _module_layer(name: str, layer: nn.Module) -> Layer | None:
    kind: Callable[[Any, str], Layer | None] | None = _KINDS.get(type(layer))
    if kind is None:
        raise NotCompiled(f"{name} is a {type(layer).__name__}")
    return kind(layer, name)


def _convolution(layer: nn.Conv2d, name: str) -> Layer:
    height, width = layer.kernel_size
    plain = layer.padding in (0, (0, 0)) and layer.stride == layer.dilation == (1, 1) and layer.groups == 1
    if not plain or height != width or layer.bias is None:
        raise NotCompiled(f"{name} is not a square Conv2d with stride 1, a bias and no padding")
    return Layer("conv", name, layer, (layer.out_channels, height))


def _pool(layer: nn.MaxPool2d, name: str) -> Layer:
    pair = ((2, 2), 2)
    plain = layer.kernel_size in pair and layer.stride in pair and layer.padding in (0, (0, 0))
    if not plain or layer.dilation not in (1, (1, 1)) or layer.ceil_mode:
        raise NotCompiled(f"{name} is not MaxPool2d(2)")
    return Layer("pool")


def _log_softmax(dim: object, name: str) -> Layer:
    if dim not in (1, -1):
        raise NotCompiled(f"{name} is not a log-softmax over the classes")
    return Layer("log_softmax")


def _linear(layer: nn.Linear, name: str) -> Layer:
    if layer.bias is None:
        raise NotCompiled(f"{name} is a Linear without bias")
    return Layer("linear", name, layer, (layer.out_features, 0))


_KINDS: dict[type[nn.Module], Callable[[Any, str], Layer | None]] = {
    nn.Conv2d: _convolution,
    nn.MaxPool2d: _pool,
    nn.Linear: _linear,
    nn.ReLU: lambda _layer, _name: Layer("relu"),
    nn.Flatten: lambda _layer, _name: Layer("flatten"),
    nn.Identity: lambda _layer, _name: None,
    nn.Dropout2d: lambda layer, _name: Layer("channel dropout", rate=layer.p) if layer.p else None,
    nn.Dropout: lambda layer, _name: Layer("dropout", rate=layer.p) if layer.p else None,
    nn.LogSoftmax: lambda layer, name: _log_softmax(layer.dim, name),
}


def compiled_task(
    module: nn.Module,
    samples: object,
    training: LocalTraining,
    objective: Objective,
    offset: tuple[float, ...] | None,
    scale: tuple[float, ...] | None,
) -> CnnTask:
    """Return the task that trains a module by the compiled kernels.

    Raises:
        NotCompiled: module, loss or samples are not what they can train.
    """
    if not is_installed("numba"):
        raise NotCompiled("numba is not installed")
    if not isinstance(samples, DeviceSamples) or samples.dataset.train_inputs.dtype != np.uint8:
        raise NotCompiled("samples are not uint8 images")
    architecture, normalised = find_architecture(module, samples.dataset.input_shape)
    # A log-softmax changes nothing in front of a cross-entropy, and is the first half of one.
    if not objective.is_cross_entropy and not (normalised and objective.is_likelihood):
        raise NotCompiled("the loss is not cross_entropy, or nll_loss of a log-softmax, without options")
    try:
        return CnnTask(samples, architecture, training, offset=offset, scale=scale)
    except UserError as error:
        raise NotCompiled(str(error)) from None


def require_same_gradient(task: CnnTask, model: Vector, rows: Any, expected: Vector) -> None:
    """Raise NotCompiled unless the kernels compute the gradient of a batch that torch has computed."""
    gradient = task.gradient(model, rows)
    if np.linalg.norm(gradient - expected) > TOLERANCE * np.linalg.norm(expected) + 1e-6:
        raise NotCompiled("its gradient is another than that of its layers")
