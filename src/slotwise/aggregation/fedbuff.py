"""FedBuff: a buffer of K discounted updates, applied at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from slotwise.aggregation.checks import check_positive
from slotwise.aggregation.rule import Contribution, Vector


@dataclass(frozen=True)
class FedBuff:
    """w_{k+1} = w_k − (eta_g/K) Σ u_i / sqrt(1 + d_i), where the buffer of K updates is a round of K = S.

    Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba, "Federated Learning with Buffered Asynchronous
    Aggregation", AISTATS 2022, arXiv:2106.06639. ``server_rate`` is eta_g. The discounts are not normalised:
    a round of old updates takes a shorter step. If all are fresh and eta_g is 1, it is `mean` to the bit.
    """

    server_rate: float = 1.0

    def __post_init__(self) -> None:
        check_positive("server_rate", self.server_rate)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        total = np.zeros(model.shape, dtype=np.float64)
        for sent in contributions:
            total += sent.update.astype(np.float64) / sqrt(1 + sent.staleness)
        return (model - self.server_rate * (total / len(contributions))).astype(np.float32)
