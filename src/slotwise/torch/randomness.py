"""Random operations of torch modules, drawn from a generator of one local training.

torch's default generator is shared by all threads, so its numbers would depend on which training comes first.
A dispatch mode is a setting of one thread: it sees every operation of the module there, including those that
layers written in C++ make (the dropout of an LSTM), and hands a generator to the random ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from slotwise.base.errors import UserError
from slotwise.learning.randomness import Purpose, generator

# The overload with a generator, for operations that have none among their arguments.
WITH_GENERATOR = {
    "default": "generator",
    "low": "low_generator",
    "Tensor": "Tensor_generator",
    "low_dtype": "low_generator_dtype",
}
DROPOUT_RATES = ("dropout_p", "dropout", "p")


class SeededOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws all random operations of this thread from generators of one device and training.

    Attributes:
        seen: Random operations so far.
    """

    def __init__(self, seed: int, device: int = 0, training: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # torch's generator on the CPU uses 32 of these bits. Two trainings with the same ones draw the same
        # numbers, but for other samples and another model.
        self._seed = int(generator(seed, Purpose.LAYERS, device, training).integers(2**63))
        self._generators: dict[torch.device, torch.Generator] = {}
        self.seen = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operation; a random one with a generator."""
        kwargs = kwargs or {}
        if not _can_draw(func):
            return func(*args, **kwargs)
        takes_generator = _generator_index(func) is not None
        if takes_generator and _given(func, args, kwargs) is not None:
            return func(*args, **kwargs)  # from a generator of the user's own
        if not takes_generator and _rate(func, args, kwargs) == 0:
            return func(*args, **kwargs)  # such as attention without dropout
        self.seen += 1
        draw = self._generator(args, kwargs)
        if takes_generator:
            return func(*args, **kwargs, generator=draw)
        if func is torch.ops.aten.native_dropout.default:
            return _dropout(*args, draw=draw)
        overload = WITH_GENERATOR.get(func._overloadname, "")
        if overload not in func.overloadpacket.overloads():
            raise UserError(f"TorchTask: the module uses {func}, whose random numbers cannot be seeded")
        return getattr(func.overloadpacket, overload)(*args, **kwargs, generator=draw)

    def _generator(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Generator:
        """Return the generator of the torch device that an operation computes on."""
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        device = kwargs.get("device") or (tensors[0].device if tensors else None) or torch.device("cpu")
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


@cache
def _can_draw(func: Any) -> bool:
    """Return whether an operation may draw random numbers."""
    return _generator_index(func) is not None or torch.Tag.nondeterministic_seeded in func.tags


def _generator_index(func: Any) -> int | None:
    """Return the place of the generator among an operation's arguments, if it has one."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.name == "generator":
            return index
    return None


def _given(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the generator that an operation was called with."""
    index = _generator_index(func)
    return args[index] if index is not None and index < len(args) else kwargs.get("generator")


def _rate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    """Return the dropout rate of an operation, if it has one."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.name in DROPOUT_RATES:
            given = args[index] if index < len(args) else kwargs.get(argument.name, argument.default_value)
            return None if given is None else float(given)
    return None


def _dropout(
    inputs: torch.Tensor, rate: float, train: bool | None = True, *, draw: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs with some set to 0 and the others scaled up, and which were kept."""
    if not train:
        return inputs.clone(), torch.ones_like(inputs, dtype=torch.bool)
    kept = torch.empty_like(inputs, dtype=torch.bool).bernoulli_(1 - rate, generator=draw)
    scale = 0.0 if rate == 1 else 1 / (1 - rate)
    return inputs * kept * scale, kept
