"""Aggregation rules: their type, their inputs, the checked call of a rule, and the paper's rule, `mean`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import UserError
from slotwise.user_code import describe_value

Vector = NDArray[np.float32]


class Contribution(NamedTuple):
    """One update as the server sees it.

    Attributes:
        update: w_start − w_end.
        staleness: d = k − k̂, the rounds since the model it started on.
        start: w_start, that model; read-only.
    """

    update: Vector
    staleness: int
    start: Vector


Aggregation = Callable[[Vector, Sequence[Contribution]], Vector]
"""w_{k+1} from w_k and the contributions of round k, at least one, in the order of their uplinks."""


def mean(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = w_k − (1/S) Σ updates: the paper's rule (eq. 5 with eq. 11), which ignores staleness.

    Summed in double precision and in the order of the uplinks, then rounded once. On a synchronous schedule
    it is federated averaging (McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-Efficient
    Learning of Deep Networks from Decentralized Data", AISTATS 2017) with devices of equally many samples.
    """
    total = np.zeros(model.shape, dtype=np.float64)
    for contribution in contributions:
        total += contribution.update
    return (model - total / len(contributions)).astype(np.float32)


def next_model(aggregation: Aggregation, model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """Apply the rule to a round and check what it returns; a round without updates keeps the model.

    Raises:
        UserError: the rule does not return a float32 vector as long as the model.
    """
    if not contributions:
        return model
    # Later updates may still start from these models: a rule that wrote to them would change the past.
    arrived = [contribution._replace(start=_read_only(contribution.start)) for contribution in contributions]
    result: object = aggregation(_read_only(model), arrived)
    if isinstance(result, np.ndarray) and result.dtype == np.float32 and result.shape == model.shape:
        return np.ascontiguousarray(result)
    function = getattr(aggregation, "__qualname__", None)
    name = f"{aggregation.__module__}:{function}" if function else type(aggregation).__name__
    wanted = f"must return a float32 array of length {len(model)}"
    raise UserError(f"aggregation {name}: {wanted}; it returned {describe_value(result)}")


def _read_only(model: Vector) -> Vector:
    view = model.view()
    view.flags.writeable = False
    return view
