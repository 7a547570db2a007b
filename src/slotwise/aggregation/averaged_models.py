"""`model_average`: the mean of the local models, the other common reading of federated averaging."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotwise.aggregation.rule import Contribution, Vector


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
