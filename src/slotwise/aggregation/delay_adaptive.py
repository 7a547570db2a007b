"""DelayAdaptive: old updates take shorter steps, in proportion to 1/d."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from slotwise.aggregation.rule import Contribution, RuleState, Vector
from slotwise.errors import InputError


@dataclass(frozen=True)
class DelayAdaptive:
    """w_{k+1} = w_k − (1/S) Σ min(1, c/d_i) u_i: full steps up to staleness c, then steps as short as c/d.

    Mishchenko, Bach, Even and Woodworth, "Asynchronous SGD Beats Minibatch SGD Under Arbitrary Delays",
    NeurIPS 2022, arXiv:2206.07638, take step sizes in proportion to min(1/c, 1/d) with c the number of
    workers. Koloskova, Stich and Jaggi, "Sharper Convergence Guarantees for Asynchronous SGD for Distributed
    and Federated Learning", NeurIPS 2022, arXiv:2206.08307, shorten the steps of delays above c, the average
    number of updates being computed. Both count delays in updates. In rounds of S updates c is that number
    over S, which is about the average staleness.

    ``delay_threshold`` is c in rounds. None takes the mean staleness of the updates so far, those of this
    round included, but at least 1. The weights are not normalised. The state is the sum and the number of
    these stalenesses.
    """

    delay_threshold: float | None = None

    def __post_init__(self) -> None:
        if self.delay_threshold is not None and not 0 < self.delay_threshold < inf:
            raise InputError("delay_threshold", self.delay_threshold, "a finite number of rounds above 0")

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model, and the sum and number of stalenesses."""
        seen = state.get("seen", np.zeros(2, dtype=np.int64))
        seen = seen + np.array([sum(sent.staleness for sent in contributions), len(contributions)])
        threshold = self.delay_threshold
        if threshold is None:
            threshold = max(1.0, int(seen[0]) / int(seen[1]))
        total = np.zeros(model.shape, dtype=np.float64)
        for sent in contributions:
            weight = min(1.0, threshold / sent.staleness) if sent.staleness else 1.0
            total += weight * sent.update.astype(np.float64)
        return (model - total / len(contributions)).astype(np.float32), {"seen": seen}
