"""NormClipping: the mean of updates that are not longer than a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from slotwise.aggregation.checks import check_positive
from slotwise.aggregation.rule import Contribution, Vector


@dataclass(frozen=True)
class NormClipping:
    """w_{k+1} = w_k − (1/S) Σ u_i · min(1, M/‖u_i‖): longer updates are scaled down to length M.

    Sun, Kairouz, Suresh and McMahan, "Can You Really Backdoor Federated Learning?", 2019, arXiv:1911.07963.
    ``largest_norm`` is M. None takes the median length of the round's updates, the lower one of two, which
    needs no knowledge of the task. An update that is not finite counts as zero.
    """

    largest_norm: float | None = None

    def __post_init__(self) -> None:
        if self.largest_norm is not None:
            check_positive("largest_norm", self.largest_norm)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        norms = [float(np.sqrt(np.square(sent.update.astype(np.float64)).sum())) for sent in contributions]
        # With NaN among them, the order of the norms would be undefined.
        norms = [norm if norm < inf else inf for norm in norms]  # NaN too
        bound = self.largest_norm
        if bound is None:
            bound = sorted(norms)[(len(norms) - 1) // 2]
        total = np.zeros(model.shape, dtype=np.float64)
        for norm, sent in zip(norms, contributions, strict=True):
            if norm < inf:
                total += min(1.0, bound / norm if norm else 1.0) * sent.update.astype(np.float64)
        return (model - total / len(contributions)).astype(np.float32)
