"""What the server has in hand at the end of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Contribution(NamedTuple):
    """One update as the server sees it.

    Attributes:
        update: w_start − w_end.
        staleness: d = k − k̂, the rounds since the model it started on.
        start: w_start, that model; the server's own copy, so it must not be written to.
    """

    update: Vector
    staleness: int
    start: Vector


Aggregation = Callable[[Vector, Sequence[Contribution]], Vector]
"""w_{k+1} from w_k and the contributions of round k, at least one, in the order of their uplinks."""


def next_model(aggregation: Aggregation, model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1}: as the aggregation says; a round in which nobody has sent leaves the model as it is."""
    return aggregation(model, contributions) if contributions else model
