"""The torch modules that the compiled kernels can train, and the task that does.

A module is compiled if it consists of convolutions, group normalisations, pools, ReLUs and sums of two
outputs, then dense layers, with dropout anywhere, as a ``Sequential`` or in the ``forward`` of a module that
torch.fx can follow. What its layers say is not trusted alone: the gradient of one batch must be torch's.
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
from slotwise.fastcnn.layers import Convolution, Dense, Layer, LayerNetwork, Normalisation, Pool, Sum
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.torch.objective import Objective

MOST_FILTERS = 1 << 20
"""Weights of a convolution. They are read once for each sample; more do not stay in a core's cache."""
TOLERANCE = 1e-3  # of a gradient, relative to its norm: float32 in another order of the sums
_SIZES = ("size", getattr, operator.getitem)  # x.size(0) and x.shape[0], for a view


class NotCompiled(Exception):
    """A module that the kernels cannot train; the message says why."""


def find_network(module: nn.Module, input_shape: tuple[int, ...]) -> tuple[LayerNetwork, bool]:
    """Return the network that a module is, and whether it ends in a log-softmax.

    Raises:
        NotCompiled: it is none that the kernels have.
    """
    if len(input_shape) != 3:
        raise NotCompiled("inputs are not images [channels, height, width]")
    builder = _Builder(input_shape)
    normalised = _follow(module, builder)
    used = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if used != builder.parameters:
        raise NotCompiled("parameters are declared in another order than they are used, or not trained")
    try:
        channels, height, width = input_shape
        found = LayerNetwork((channels, height, width), tuple(builder.layers))
    except ValueError as error:
        raise NotCompiled(str(error)) from None
    if list(found.parameter_shapes) != [tuple(parameter.shape) for parameter in module.parameters()]:
        raise NotCompiled("layers do not fit images of this size")
    return found, normalised


class Value(NamedTuple):
    """What an operation returns: the output of a layer."""

    layer: int  # -1: the images
    flat: bool  # one row of numbers for each sample
    shared: bool = False  # several operations take it


class _Builder:
    """The layers of a network so far. ReLU, dropout and a max-pool of 2 are part of the layer before them.

    Operations begin at the output of the layer `at`.
    """

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        self.layers: list[Layer] = []
        self.parameters: list[str] = []
        self._input_shape, self._shapes = input_shape, list[tuple[int, ...]]()
        self.at = Value(-1, False)

    def add(self, name: str, layer: nn.Module) -> None:
        """Append an operation, or make it part of the layer before."""
        adder: Callable[[Any, Any, str], None] | None = _ADDERS.get(type(layer))
        if adder is None:
            raise NotCompiled(f"{name} is {describe_value(layer)}")
        adder(self, layer, name)

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._shapes[self.at.layer] if self.at.layer >= 0 else self._input_shape

    def _append(self, layer: Layer) -> None:
        self.layers.append(replace(layer, source=self.at.layer))
        self._shapes.append(layer.output_shape(self._shape))
        self.at = Value(len(self.layers) - 1, self.at.flat)

    def _change(self, name: str, **changes: Any) -> None:
        if self.at.layer < 0:
            raise NotCompiled(f"{name} is applied to the images themselves")
        if self.at.shared:
            self._require_map(name)
            self._append(Sum())  # a copy, because others take what comes before
        self.layers[self.at.layer] = replace(self.layers[self.at.layer], **changes)

    def _require_map(self, name: str) -> None:
        if self.at.flat:
            raise NotCompiled(f"{name} is applied to values that are no longer an image")

    def _own(self, layer: nn.Module, name: str) -> None:
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
        if not plain or isinstance(padding, str) or self.at.flat:
            raise NotCompiled(f"{name} is not a Conv2d of images without groups, dilation and other padding")
        if len({*layer.stride}) > 1 or len({*padding}) > 1 or padding[0] >= min(height, width):
            raise NotCompiled(f"{name} has a stride or padding that differs by axis, or more than its kernel")
        if layer.weight.numel() > MOST_FILTERS:
            raise NotCompiled(f"{name} has {layer.weight.numel():,} weights, with so many torch is faster")
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
        if not self.at.flat:
            raise NotCompiled(f"{name} is a Linear without a Flatten before it")
        self._own(layer, name)
        self._append(Dense(units=layer.out_features, bias=layer.bias is not None))

    def normalisation(self, layer: nn.GroupNorm | nn.InstanceNorm2d, name: str) -> None:
        """Append a group normalisation."""
        self._require_map(name)
        if isinstance(layer, nn.InstanceNorm2d) and layer.track_running_stats:
            raise NotCompiled(f"{name} is an InstanceNorm2d with running statistics")
        channels = layer.num_channels if isinstance(layer, nn.GroupNorm) else layer.num_features
        groups = layer.num_groups if isinstance(layer, nn.GroupNorm) else channels
        if channels != self._shape[0]:
            raise NotCompiled(f"{name} does not fit the channels before it")
        self._own(layer, name)
        self._append(Normalisation(groups=groups, affine=layer.affine, epsilon=layer.eps))

    def sum(self, one: Value, other: Value, name: str) -> None:
        """Append the sum of two outputs."""
        if one.flat or other.flat:
            raise NotCompiled(f"{name} adds values that are no longer images")
        self.at = one
        self._append(Sum(other=other.layer))
        self.layers[-1] = replace(self.layers[-1], source=one.layer)

    def identity(self, _layer: nn.Identity, _name: str) -> None:
        """Change nothing."""

    def relu(self, _layer: nn.ReLU, name: str) -> None:
        """Let the output of the last layer go through a ReLU."""
        self._change(name, rectify=True)

    def flatten(self, _layer: nn.Flatten, _name: str) -> None:
        """Take all values as inputs of dense layers."""
        self.at = self.at._replace(flat=True)

    def dropout(self, layer: nn.Dropout | nn.Dropout2d, name: str) -> None:
        """Let training drop outputs of the last layer."""
        if not layer.p:
            return
        if layer.p == 1:
            raise NotCompiled(f"{name} drops everything")
        channels = isinstance(layer, nn.Dropout2d)
        if channels and self.at.flat:
            raise NotCompiled(f"{name} is a Dropout2d of values without channels")
        if (
            self.at.layer >= 0 and self.layers[self.at.layer].dropout
        ):  # a layer drops once: this one is a copy
            self._append(Pool(kernel=(1, 1), stride=(1, 1), mean=True))
        self._change(name, dropout=layer.p, drops_channels=channels)

    def max_pool(self, layer: nn.MaxPool2d, name: str) -> None:
        """Append a max-pool, or make one of 2 part of a convolution."""
        kernel, stride = _pair(layer.kernel_size), _pair(layer.stride)
        if _pair(layer.padding) != (0, 0) or _pair(layer.dilation) != (1, 1) or layer.ceil_mode:
            raise NotCompiled(f"{name} is a MaxPool2d with padding, dilation or ceil_mode")
        last = self.layers[self.at.layer] if self.at.layer >= 0 and not self.at.shared else None
        # Dropout of single values has to come before the pool.
        fits = isinstance(last, Convolution) and not last.pooled and (last.drops_channels or not last.dropout)
        if fits and kernel == stride == (2, 2):
            self._change(name, pooled=True)
            channels, height, width = self._shape
            self._shapes[self.at.layer] = (channels, height // 2, width // 2)
        else:
            self._append(Pool(kernel=kernel, stride=stride, mean=False))

    def mean_pool(self, layer: nn.AvgPool2d, name: str) -> None:
        """Append an average pool."""
        if _pair(layer.padding) != (0, 0) or layer.ceil_mode or layer.divisor_override:
            raise NotCompiled(f"{name} is an AvgPool2d with padding, ceil_mode or divisor_override")
        self._append(Pool(kernel=_pair(layer.kernel_size), stride=_pair(layer.stride), mean=True))

    def adaptive_pool(self, layer: nn.AdaptiveAvgPool2d, name: str) -> None:
        """Append an average pool whose windows do not overlap."""
        self._require_map(name)
        sizes, wanted = self._shape[1:], _pair(layer.output_size)
        if any(not given or size % given for size, given in zip(sizes, wanted, strict=True)):
            raise NotCompiled(f"{name} is an AdaptiveAvgPool2d with windows of several sizes")
        kernel = (sizes[0] // wanted[0], sizes[1] // wanted[1])
        self._append(Pool(kernel=kernel, stride=kernel, mean=True))


def _pair(size: Any) -> tuple[int, int]:
    return (size[0], size[1]) if isinstance(size, tuple | list) else (size, size)


_ADDERS: dict[type[nn.Module], Callable[[Any, Any, str], None]] = {
    nn.Conv2d: _Builder.convolution,
    nn.Linear: _Builder.linear,
    nn.GroupNorm: _Builder.normalisation,
    nn.InstanceNorm2d: _Builder.normalisation,
    nn.Identity: _Builder.identity,
    nn.ReLU: _Builder.relu,
    nn.Flatten: _Builder.flatten,
    nn.Dropout: _Builder.dropout,
    nn.Dropout2d: _Builder.dropout,
    nn.MaxPool2d: _Builder.max_pool,
    nn.AvgPool2d: _Builder.mean_pool,
    nn.AdaptiveAvgPool2d: _Builder.adaptive_pool,
}


def _follow(module: nn.Module, builder: _Builder) -> bool:
    """Add the operations of a module to a network; return whether the last one is a log-softmax."""
    traced = _traced(module)
    values: dict[Any, Value] = {}
    normalised = False
    for node in _in_order_of_parameters(traced.graph, module):
        if node.op == "output":
            break
        if node.target in _SIZES:
            continue
        if normalised:
            raise NotCompiled(f"{node.name} comes after a log-softmax")
        sources = [values[given] for given in node.args if isinstance(given, fx.Node) and given in values]
        if node.op == "placeholder":
            builder.at = Value(-1, False)
        else:
            normalised = _add_operation(node, traced, sources, builder)
        users = [user for user in node.users if user.target not in _SIZES]
        kept = any(source.shared and source.layer == builder.at.layer for source in sources)
        values[node] = builder.at._replace(shared=kept or len(users) > 1)
    end = values.get(node.args[0])
    if end is None or end.layer != len(builder.layers) - 1:
        raise NotCompiled("it does not return the output of its last layer")
    return normalised


def _traced(module: nn.Module) -> fx.GraphModule:
    try:
        traced = fx.symbolic_trace(module)
    except Exception as error:  # torch.fx raises anything where a forward does not only call layers
        raise NotCompiled(f"torch.fx cannot follow its forward ({type(error).__name__})") from None
    if sum(node.op == "placeholder" for node in traced.graph.nodes) > 1:
        raise NotCompiled("it has several inputs")
    return traced


def _add_operation(node: fx.Node, traced: fx.GraphModule, sources: list[Value], builder: _Builder) -> bool:
    """Add what a node of the graph does with some values; return whether it is a log-softmax."""
    if not sources:
        raise NotCompiled(f"{node.name} does not take the output of a layer")
    if node.target in _ADDITIONS:
        if len(sources) != 2 or len(node.args) != 2 or node.kwargs:
            raise NotCompiled(f"{node.name} adds something else than the outputs of two layers")
        builder.sum(sources[0], sources[1], node.name)
        return False
    builder.at = sources[0]
    for name, layer in _layers_of(node, traced):
        if isinstance(layer, nn.LogSoftmax) and layer.dim in (1, -1) and builder.at.flat:
            return True
        builder.add(name, layer)
    return False


def _in_order_of_parameters(graph: fx.Graph, module: nn.Module) -> Iterator[fx.Node]:
    """Yield operations after those whose results they take, else as their parameters are declared.

    So the layers of a shortcut come first if they are declared before those of the other branch.
    """
    declared = {name.rpartition(".")[0]: number for number, (name, _) in enumerate(module.named_parameters())}
    waiting, done = list(graph.nodes), set[fx.Node]()
    while waiting:
        ready = [node for node in waiting if done.issuperset(node.all_input_nodes)]
        first = min(ready, key=lambda node: (node.op == "output", declared.get(str(node.target), -1)))
        waiting.remove(first)
        done.add(first)
        yield first


_ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")

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


def _layers_of(node: fx.Node, traced: fx.GraphModule) -> list[tuple[str, nn.Module]]:
    """Return the layers that do the same as a call in a forward, and their names."""
    if node.op == "call_module":
        return [(str(node.target), traced.get_submodule(str(node.target)))]
    if node.target in (functional.dropout, functional.dropout2d):
        raise NotCompiled(f"{node.name} is a function; a layer such as nn.Dropout can be compiled")
    if node.target in (torch.mean, "mean"):
        return [(node.name, layer) for layer in _mean_over_positions(node)]
    for targets, layer, names in _FUNCTIONS:
        if node.target in targets:
            given = {**dict(zip(names, node.args[1:], strict=False)), **node.kwargs}
            if any(isinstance(given.get(name), fx.Node) for name in names):
                raise NotCompiled(f"{node.name} depends on the size of its input")
            return [(node.name, layer(**{name: value for name, value in given.items() if name in names}))]
    raise NotCompiled(f"{node.name} is not a layer that the kernels have")


def _mean_over_positions(node: fx.Node) -> list[nn.Module]:
    """Return the layers that do the same as a mean over height and width."""
    given: dict[str, Any] = {**dict(zip(("dim", "keepdim"), node.args[1:], strict=False)), **node.kwargs}
    axes = given.pop("dim", None)
    keeps = given.pop("keepdim", False)
    known = isinstance(axes, tuple | list) and all(isinstance(axis, int) for axis in axes)
    if given or not known or sorted(axis % 4 for axis in axes) != [2, 3]:
        raise NotCompiled(f"{node.name} is not a mean over height and width")
    return [nn.AdaptiveAvgPool2d(1)] if keeps else [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


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
