"""Aggregation rules: their type, their inputs, and the checked call of a rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import UserError
from slotwise.base.frozen import FrozenMapping, frozen_arrays, frozen_copy, read_only
from slotwise.base.user_code import describe_value

Vector = NDArray[np.float32]


class Contribution(NamedTuple):
    """One update as the server sees it.

    Attributes:
        update: w_start − w_end; read-only.
        staleness: d = k − k̂, the rounds since the model it started on.
        start: w_start, that model; read-only.
        device: Number of the device, from 1.
        round: k, the round in which the update is applied.
        samples: n_k, the samples that the device holds.
        metrics: Numbers that the device reports with its update, by name.
    """

    update: Vector
    staleness: int
    start: Vector
    device: int = 0
    round: int = 0
    samples: int = 1
    metrics: Mapping[str, float] = FrozenMapping()


RuleState = Mapping[str, NDArray[Any]]
"""Arrays that a rule keeps from round to round, by name; empty before the first, part of checkpoints."""

NO_STATE: RuleState = FrozenMapping()

Aggregation = (
    Callable[[Vector, Sequence[Contribution]], Vector]
    | Callable[[Vector, Sequence[Contribution], RuleState], tuple[Vector, RuleState]]
)
"""w_{k+1} from w_k and the contributions of round k, at least one, in the order of their uplinks.

A rule with a third argument keeps a state: it gets the state of the round before and also returns the next.
"""


def keeps_state(aggregation: Callable[..., Any]) -> bool:
    """Return whether a rule takes a third argument, its state."""
    try:
        # Two arguments fail to bind if the rule requires a third.
        inspect.signature(aggregation).bind(None, None)
    except TypeError:
        return True
    except ValueError:  # some functions written in C have no signature
        return False
    return False


def next_model(
    aggregation: Aggregation,
    model: Vector,
    contributions: Sequence[Contribution],
    state: RuleState = NO_STATE,
) -> tuple[Vector, RuleState]:
    """Apply the rule to a round and check what it returns: the next model and the rule's next state.

    A round without updates keeps both. The rule cannot change what it gets, and what it returns is copied: it
    may use the arrays again.

    Raises:
        UserError: the rule does not return a float32 vector as long as the model, or its state is no table of
            numeric arrays.
    """
    if not contributions:
        return model, state
    # Later updates may still start from these models: a rule that wrote to them would change the past.
    arrived = [
        sent._replace(update=read_only(sent.update), start=read_only(sent.start)) for sent in contributions
    ]
    rule: Callable[..., Any] = aggregation
    found: Any
    if keeps_state(rule):
        found = rule(read_only(model), arrived, frozen_arrays(state))
        if not isinstance(found, tuple) or len(found) != 2:
            raise _wrong(rule, "must return a model and a state", found)
        found, state = found[0], _checked_state(rule, found[1])
    else:
        found = rule(read_only(model), arrived)
    if isinstance(found, np.ndarray) and found.dtype == np.float32 and found.shape == model.shape:
        return frozen_copy(found), state
    raise _wrong(rule, f"must return a float32 array of length {len(model)}", found)


def check_group_sizes(rule: Aggregation, sizes: Sequence[int]) -> None:
    """Refuse sizes of rounds that do not fit a rule with a method ``check_group_size``."""
    check = getattr(rule, "check_group_size", None)
    if check is not None:
        for size in sizes:
            check(size)


def _checked_state(rule: Callable[..., Any], state: object) -> RuleState:
    """Return a copy of a rule's state, as arrays that a checkpoint can keep."""
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise _wrong(rule, "must return its state as a dict of arrays by name", state)
    arrays = {name: np.asarray(value) for name, value in state.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise _wrong(rule, f"must return arrays of numbers as its state, also for {name}", array)
    return {name: frozen_copy(array) for name, array in arrays.items()}


def _wrong(rule: Callable[..., Any], wanted: str, found: object) -> UserError:
    function = getattr(rule, "__qualname__", None)
    name = f"{rule.__module__}:{function}" if function else type(rule).__name__
    return UserError(f"aggregation {name}: {wanted}; it returned {describe_value(found)}")
