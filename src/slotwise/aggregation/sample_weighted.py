"""`fedavg`: the mean weighted by the samples of each device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import Contribution, Vector
from slotwise.errors import UserError


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
    total = np.zeros(contributions[0].update.shape, dtype=np.float64)
    for weight, contribution in zip(weights, contributions, strict=True):
        total += weight * contribution.update.astype(np.float64)
    return total / sum(weights)
