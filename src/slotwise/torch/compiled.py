"""The torch modules that the compiled kernels can train, and the task that does.

A module is compiled if it is a chain of convolutions, pools and ReLUs, then dense layers, with dropout
anywhere, as a ``Sequential`` or in the ``forward`` of a module that torch.fx can follow. What its layers say
is not trusted alone: the gradient of one batch must be torch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.extras import is_installed
from slotwise.base.user_code import describe_value
from slotwise.fastcnn.layers import Convolution, Dense, Layer, LayerNetwork, Pool
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.torch.objective import Objective

TOLERANCE = 1e-3  # of a gradient, relative to its norm: float32 in another order of the sums
_SIZES = ("size", getattr, operator.getitem)  # x.size(0) and x.shape[0], for a view


class NotCompiled(Exception):
    """A module that the kernels cannot train; the message says why."""


class Step(NamedTuple):
    """One operation of a module: its name in the graph, and the layer that does it."""

    name: str
    layer: nn.Module


def find_network(module: nn.Module, input_shape: tuple[int, ...]) -> tuple[LayerNetwork, bool]:
    """Return the network that a module is, and whether it ends in a log-softmax.

    Raises:
        NotCompiled: it is none that the kernels have.
    """
    if len(input_shape) != 3:
        raise NotCompiled("inputs are not images [channels, height, width]")
    steps = [step for step in _steps(module) if not isinstance(step.layer, nn.Identity)]
    end = steps[-1].layer if steps else None
    normalised = isinstance(end, nn.LogSoftmax) and end.dim in (1, -1)
    chain = _Chain(input_shape)
    for step in steps[: len(steps) - normalised]:
        chain.add(step)
    used = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if used != chain.parameters:
        raise NotCompiled("parameters are declared in another order than they are used, or not trained")
    try:
        channels, height, width = input_shape
        found = LayerNetwork((channels, height, width), tuple(chain.layers))
    except ValueError as error:
        raise NotCompiled(str(error)) from None
    if list(found.parameter_shapes) != [tuple(parameter.shape) for parameter in module.parameters()]:
        raise NotCompiled("layers do not fit images of this size")
    return found, normalised


class _Chain:
    """The layers of a network so far. ReLU, dropout and a max-pool of 2 are part of the layer before them."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        self.layers: list[Layer] = []
        self.parameters: list[str] = []
        self._shape, self._flat = input_shape, False

    def add(self, step: Step) -> None:
        """Append an operation, or make it part of the last layer."""
        adder: Callable[[Any, Any, str], None] | None = _ADDERS.get(type(step.layer))
        if adder is None:
            raise NotCompiled(f"{step.name} is {describe_value(step.layer)}")
        adder(self, step.layer, step.name)

    def _append(self, layer: Layer) -> None:
        self.layers.append(replace(layer, source=len(self.layers) - 1))
        self._shape = layer.output_shape(self._shape)

    def _change(self, name: str, **changes: Any) -> None:
        if not self.layers:
            raise NotCompiled(f"{name} is applied to the images themselves")
        self.layers[-1] = replace(self.layers[-1], **changes)

    def _own(self, layer: nn.Conv2d | nn.Linear, name: str) -> None:
        self.parameters += [f"{name}.{kind}" for kind, _ in layer.named_parameters(recurse=False)]

    def convolution(self, layer: nn.Conv2d, name: str) -> None:
        """Append a convolution to the layers."""
        height, width = layer.kernel_size
        padding = layer.padding
        if padding == "same" and layer.stride == (1, 1):
            padding = (height // 2, width // 2) if height % 2 and width % 2 else "same"
        if padding == "valid":
            padding = (0, 0)
        plain = layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
        if not plain or isinstance(padding, str) or self._flat:
            raise NotCompiled(f"{name} is not a Conv2d of images without groups, dilation and other padding")
        if len({*layer.stride}) > 1 or len({*padding}) > 1 or padding[0] >= min(height, width):
            raise NotCompiled(f"{name} has a stride or padding that differs by axis, or more than its kernel")
        self._own(layer, name)
        self._append(
            Convolution(
                filters=layer.out_channels,
                kernel=(height, width),
                stride=layer.stride[0],
                padding=padding[0],
                bias=layer.bias is not None,
            )
        )

    def linear(self, layer: nn.Linear, name: str) -> None:
        """Append a dense layer."""
        if not self._flat:
            raise NotCompiled(f"{name} is a Linear without a Flatten before it")
        self._own(layer, name)
        self._append(Dense(units=layer.out_features, bias=layer.bias is not None))

    def relu(self, _layer: nn.ReLU, name: str) -> None:
        """Let the output of the last layer go through a ReLU."""
        self._change(name, rectify=True)

    def flatten(self, _layer: nn.Flatten, _name: str) -> None:
        """Take all values as inputs of dense layers."""
        self._flat = True

    def dropout(self, layer: nn.Dropout | nn.Dropout2d, name: str) -> None:
        """Let training drop outputs of the last layer."""
        if not layer.p:
            return
        if layer.p == 1:
            raise NotCompiled(f"{name} drops everything")
        if self.layers and self.layers[-1].dropout:  # a layer drops once: this one is of a pool of 1
            self._append(Pool(kernel=(1, 1), stride=(1, 1), mean=True))
        channels = isinstance(layer, nn.Dropout2d)
        if channels and self._flat:
            raise NotCompiled(f"{name} is a Dropout2d of values without channels")
        self._change(name, dropout=layer.p, drops_channels=channels)

    def max_pool(self, layer: nn.MaxPool2d, name: str) -> None:
        """Append a max-pool, or make one of 2 part of a convolution."""
        kernel, stride = _pair(layer.kernel_size), _pair(layer.stride)
        if _pair(layer.padding) != (0, 0) or _pair(layer.dilation) != (1, 1) or layer.ceil_mode:
            raise NotCompiled(f"{name} is a MaxPool2d with padding, dilation or ceil_mode")
        last = self.layers[-1] if self.layers else None
        # Dropout of single values has to come before the pool.
        fits = isinstance(last, Convolution) and not last.pooled and (last.drops_channels or not last.dropout)
        if fits and kernel == stride == (2, 2):
            self._change(name, pooled=True)
            _, height, width = self._shape
            self._shape = (self._shape[0], height // 2, width // 2)
        else:
            self._append(Pool(kernel=kernel, stride=stride, mean=False))

    def mean_pool(self, layer: nn.AvgPool2d, name: str) -> None:
        """Append an average pool."""
        if _pair(layer.padding) != (0, 0) or layer.ceil_mode or layer.divisor_override:
            raise NotCompiled(f"{name} is an AvgPool2d with padding, ceil_mode or divisor_override")
        self._append(Pool(kernel=_pair(layer.kernel_size), stride=_pair(layer.stride), mean=True))

    def adaptive_pool(self, layer: nn.AdaptiveAvgPool2d, name: str) -> None:
        """Append an average pool whose windows do not overlap."""
        sizes, wanted = self._shape[1:], _pair(layer.output_size)
        if any(not given or size % given for size, given in zip(sizes, wanted, strict=True)):
            raise NotCompiled(f"{name} is an AdaptiveAvgPool2d with windows of several sizes")
        kernel = (sizes[0] // wanted[0], sizes[1] // wanted[1])
        self._append(Pool(kernel=kernel, stride=kernel, mean=True))


def _pair(size: Any) -> tuple[int, int]:
    return (size[0], size[1]) if isinstance(size, tuple | list) else (size, size)


_ADDERS: dict[type[nn.Module], Callable[[Any, Any, str], None]] = {
    nn.Conv2d: _Chain.convolution,
    nn.Linear: _Chain.linear,
    nn.ReLU: _Chain.relu,
    nn.Flatten: _Chain.flatten,
    nn.Dropout: _Chain.dropout,
    nn.Dropout2d: _Chain.dropout,
    nn.MaxPool2d: _Chain.max_pool,
    nn.AvgPool2d: _Chain.mean_pool,
    nn.AdaptiveAvgPool2d: _Chain.adaptive_pool,
}


def _steps(module: nn.Module) -> Iterator[Step]:
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
            if node.op == "call_module":
                yield Step(str(node.target), inside[str(node.target)])
            else:
                yield Step(node.name, _called_layer(node))


# Functions and methods, the layers that do the same, and the names of their arguments after the first.
_FUNCTIONS: tuple[tuple[tuple[Any, ...], Callable[..., nn.Module], tuple[str, ...]], ...] = (
    ((functional.relu, torch.relu, torch.relu_, "relu", "relu_"), nn.ReLU, ()),
    ((torch.flatten, torch.reshape, "flatten", "view", "reshape"), nn.Flatten, ()),
    ((functional.log_softmax, torch.log_softmax, "log_softmax"), nn.LogSoftmax, ("dim",)),
    (
        (functional.max_pool2d, torch.max_pool2d),
        nn.MaxPool2d,
        ("kernel_size", "stride", "padding", "dilation", "ceil_mode"),
    ),
    (
        (functional.avg_pool2d,),
        nn.AvgPool2d,
        ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    ((functional.adaptive_avg_pool2d,), nn.AdaptiveAvgPool2d, ("output_size",)),
)


def _called_layer(node: fx.Node) -> nn.Module:
    """Return the layer that does the same as a function or method in a forward."""
    if node.target in (functional.dropout, functional.dropout2d):
        raise NotCompiled(f"{node.name} is a function; a layer such as nn.Dropout can be compiled")
    for targets, layer, names in _FUNCTIONS:
        if node.target in targets:
            given = {**dict(zip(names, node.args[1:], strict=False)), **node.kwargs}
            return layer(**{name: value for name, value in given.items() if name in names})
    raise NotCompiled(f"{node.name} is not a layer that the kernels have")


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
    network, normalised = find_network(module, samples.dataset.input_shape)
    # A log-softmax changes nothing in front of a cross-entropy, and is the first half of one.
    if not objective.is_cross_entropy and not (normalised and objective.is_likelihood):
        raise NotCompiled("the loss is not cross_entropy, or nll_loss of a log-softmax, without options")
    try:
        return CnnTask(samples, network, training, offset=offset, scale=scale)
    except (UserError, ValueError) as error:
        raise NotCompiled(str(error)) from None


def require_same_gradient(task: CnnTask, model: Vector, rows: Any, expected: Vector) -> None:
    """Raise NotCompiled unless the kernels compute the gradient of a batch that torch has computed."""
    gradient = task.gradient(model, rows)
    if np.linalg.norm(gradient - expected) > TOLERANCE * np.linalg.norm(expected) + 1e-6:
        raise NotCompiled("its gradient is another than that of its layers")
