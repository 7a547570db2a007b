"""Means: the paper's rule, the mean weighted by samples, and the mean of the local models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import Contribution, Vector
from slotwise.base.errors import UserError


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
