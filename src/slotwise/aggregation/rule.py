"""Aggregation rules: their type, their inputs, the checked call of a rule, and the rules that are means."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.reception import Reception
from slotwise.base.errors import UserError
from slotwise.base.frozen import FrozenMapping, frozen_arrays, frozen_copy, read_only
from slotwise.base.user_code import describe_value

Vector = NDArray[np.float32]
LARGE = 100_000  # numbers of a model from which sums are compiled; compiled code takes time to load
PART = 1 << 15  # numbers of a sum that stay in the cache while all vectors are added


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
        devices: N, the number of devices of the run.
        uplink: Slot, duration, SNR, bits and energy of the uplink.
    """

    update: Vector
    staleness: int
    start: Vector
    device: int = 0
    round: int = 0
    samples: int = 1
    metrics: Mapping[str, float] = FrozenMapping()
    devices: int = 1
    uplink: Reception = Reception()


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
        given = frozen_arrays(state)
        found = rule(read_only(model), arrived, given)
        if not isinstance(found, tuple) or len(found) != 2:
            raise _wrong(rule, "must return a model and a state", found)
        found, state = found[0], _checked_state(rule, found[1], given)
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


def _checked_state(rule: Callable[..., Any], state: object, given: RuleState) -> RuleState:
    """Return a rule's state as arrays that a checkpoint can keep; what it was given is not copied."""
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise _wrong(rule, "must return its state as a dict of arrays by name", state)
    arrays = {name: np.asarray(value) for name, value in state.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise _wrong(rule, f"must return arrays of numbers as its state, also for {name}", array)
    return {n: array if array is given.get(n) else frozen_copy(array) for n, array in arrays.items()}


def _wrong(rule: Callable[..., Any], wanted: str, found: object) -> UserError:
    function = getattr(rule, "__qualname__", None)
    name = f"{rule.__module__}:{function}" if function else type(rule).__name__
    return UserError(f"aggregation {name}: {wanted}; it returned {describe_value(found)}")


def mean(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = w_k − (1/S) Σ updates: the paper's rule (eq. 5 with eq. 11), which ignores staleness.

    Summed in double precision and in the order of the uplinks, then rounded once. On a synchronous schedule
    it is federated averaging (McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-Efficient
    Learning of Deep Networks from Decentralized Data", AISTATS 2017) with devices of equally many samples.
    """
    updates = [contribution.update for contribution in contributions]
    if model.size < LARGE:
        return (model - weighted_sum([1.0] * len(updates), updates) / len(updates)).astype(np.float32)
    from slotwise.aggregation.sum_kernel import add_scaled, subtract_mean  # noqa: PLC0415  (loads slowly)

    new = np.empty(model.shape, dtype=np.float32)
    for first in range(0, model.size, PART):
        part = slice(first, first + PART)
        total = np.zeros(new[part].shape, dtype=np.float64)
        for update in updates:
            add_scaled(total, 1.0, update[part])
        subtract_mean(model[part], total, len(updates), new[part])
    return new


def weighted_sum(weights: Sequence[float], vectors: Sequence[Vector]) -> NDArray[np.float64]:
    """Return the sum of vectors times weights, in their order and in double precision."""
    total = np.zeros(vectors[0].shape, dtype=np.float64)
    if total.size < LARGE:
        for weight, vector in zip(weights, vectors, strict=True):
            total += weight * vector.astype(np.float64)
        return total
    from slotwise.aggregation.sum_kernel import add_scaled  # noqa: PLC0415  (loads slowly)

    for weight, vector in zip(weights, vectors, strict=True):
        add_scaled(total, weight, vector)
    return total


def fedavg(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = w_k − Σ n_i u_i / Σ n_i, with n_i the samples of device i.

    McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-Efficient Learning of Deep Networks
    from Decentralized Data", AISTATS 2017, arXiv:1602.05629, Algorithm 1. If all devices hold equally many
    samples it is `mean` to the bit.
    """
    return (model - sample_weighted_update(contributions)).astype(np.float32)


def sample_weighted_update(contributions: Sequence[Contribution]) -> NDArray[np.float64]:
    """Return Σ n_i u_i / Σ n_i, the step of `fedavg` and of the server optimisers.

    Raises:
        UserError: the task gives a device no samples, or less.
    """
    fewest = min(contributions, key=lambda contribution: contribution.samples)
    if fewest.samples < 1:
        found = f"device {fewest.device} has {fewest.samples}"
        raise UserError(f"sample_count of the task: must be at least 1 for every device; {found}")
    counts = [contribution.samples for contribution in contributions]
    largest = max(counts)
    weights = [count / largest for count in counts]  # exactly 1 if all are equal
    updates = [contribution.update for contribution in contributions]
    return weighted_sum(weights, updates) / sum(weights)


def model_average(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = (1/S) Σ w_end: devices upload models, whose mean replaces the global model.

    If all updates are fresh it is `mean`, to the bit: the sum is that of the updates, each plus the distance
    from its start to the present model, and that is exactly zero then. With staleness d it advances d + 1
    chains of models in turn, each by one round in d + 1.
    """
    total = np.zeros(model.shape, dtype=np.float64)
    present = model.astype(np.float64)
    for contribution in contributions:
        total += contribution.update + (present - contribution.start)
    return (model - total / len(contributions)).astype(np.float32)
