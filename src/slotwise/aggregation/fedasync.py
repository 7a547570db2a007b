"""FedAsync: mix the local models into the global one, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotwise.aggregation.discount import Discount, Polynomial
from slotwise.aggregation.rule import Contribution, Vector
from slotwise.errors import InputError


@dataclass(frozen=True)
class FedAsync:
    """w ← (1 − a_i) w + a_i w_i with a_i = a·s(d_i), for each update in the order of the uplinks.

    Xie, Koyejo and Gupta, "Asynchronous Federated Optimization", OPT 2020, arXiv:1903.03934, Algorithm 1.
    ``mixing`` is a and ``discount`` is s; w_i = w_start − u_i is the local model. The paper's server advances
    with every update, which is S = 1 here; with S > 1 it advances by S mixings at once. Between them the
    model stays in double precision, because no device receives it.
    """

    mixing: float = 0.6
    discount: Discount = Polynomial()  # noqa: RUF009  (frozen, so it may be shared)

    def __post_init__(self) -> None:
        if not 0 < self.mixing <= 1:
            raise InputError("mixing", self.mixing, "a number above 0 and at most 1")

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        mixed = model.astype(np.float64)
        for sent in contributions:
            weight = self.mixing * self.discount(sent.staleness)
            local = sent.start - sent.update.astype(np.float64)
            mixed = (1.0 - weight) * mixed + weight * local
        return mixed.astype(np.float32)
