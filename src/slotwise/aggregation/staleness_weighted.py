"""StalenessWeightedMean: a mean in which older updates weigh less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotwise.aggregation.discount import Discount, Polynomial
from slotwise.aggregation.rule import Contribution, Vector


@dataclass(frozen=True)
class StalenessWeightedMean:
    """w_{k+1} = w_k − Σ s(d_i) u_i / Σ s(d_i): older updates weigh less, and the weights sum to one.

    After the temporally weighted aggregation of Chen, Sun and Jin ("Communication-Efficient Federated Deep
    Learning With Layerwise Asynchronous Model Update and Temporally Weighted Aggregation", IEEE TNNLS 2020).

    The discounts are first divided by the largest of the round. So where all updates are equally old every
    weight is exactly 1, and the result is that of `mean` to the bit.
    """

    discount: Discount = Polynomial()  # noqa: RUF009  (frozen, so it may be shared)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        discounts = [self.discount(contribution.staleness) for contribution in contributions]
        largest = max(discounts)
        weights = [discount / largest for discount in discounts]
        total = np.zeros(model.shape, dtype=np.float64)
        for weight, contribution in zip(weights, contributions, strict=True):
            total += weight * contribution.update.astype(np.float64)
        return (model - total / sum(weights)).astype(np.float32)
