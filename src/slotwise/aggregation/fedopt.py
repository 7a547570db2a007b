"""FedAdam, FedYogi and FedAdagrad: adaptive optimisers on the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar and McMahan, "Adaptive Federated Optimization", ICLR
2021, arXiv:2003.00295, Algorithm 2. The pseudo-gradient u is the step of `fedavg`:

    m ← beta1·m + (1 − beta1)·u,   v as each rule says,   w_{k+1} = w_k − eta_g·m / (sqrt(v) + tau)

Before the first round m = 0 and v = tau². As in the paper there is no bias correction. ``adaptive_rate`` is
eta_g, ``server_epsilon`` is tau. The state is m and v, in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.checks import check_decay, check_positive
from slotwise.aggregation.rule import Contribution, RuleState, Vector
from slotwise.aggregation.sample_weighted import sample_weighted_update

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FedAdam:
    """v ← beta2·v + (1 − beta2)·u²; see the module for the rest. ``server_beta2`` is beta2."""

    adaptive_rate: float = 0.01
    server_beta1: float = 0.9
    server_beta2: float = 0.99
    server_epsilon: float = 1e-3

    def __post_init__(self) -> None:
        check_positive("adaptive_rate", self.adaptive_rate)
        check_positive("server_epsilon", self.server_epsilon)
        check_decay("server_beta1", self.server_beta1)
        check_decay("server_beta2", self.server_beta2)

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and both moments."""
        update = sample_weighted_update(contributions)
        mean: Array = state.get("mean", np.zeros_like(update))
        mean = self.server_beta1 * mean + (1 - self.server_beta1) * update
        square: Array = state.get("square", np.full_like(update, self.server_epsilon**2))
        square = self.next_square(square, update**2)
        step = self.adaptive_rate * mean / (np.sqrt(square) + self.server_epsilon)
        return (model - step).astype(np.float32), {"mean": mean, "square": square}

    def next_square(self, square: Array, new: Array) -> Array:
        """Return the next v from the last one and u²."""
        return self.server_beta2 * square + (1 - self.server_beta2) * new


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """v ← v − (1 − beta2)·u²·sign(v − u²): like FedAdam, but v changes by at most a share of u²."""

    def next_square(self, square: Array, new: Array) -> Array:
        """Return the next v from the last one and u²."""
        return square - (1 - self.server_beta2) * new * np.sign(square - new)


@dataclass(frozen=True)
class FedAdagrad:
    """v ← v + u² and m = u: beta1 is 0, as in the paper's experiments."""

    adaptive_rate: float = 0.01
    server_epsilon: float = 1e-3

    def __post_init__(self) -> None:
        check_positive("adaptive_rate", self.adaptive_rate)
        check_positive("server_epsilon", self.server_epsilon)

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and the sum of squares."""
        update = sample_weighted_update(contributions)
        square: Array = state.get("square", np.full_like(update, self.server_epsilon**2)) + update**2
        step = self.adaptive_rate * update / (np.sqrt(square) + self.server_epsilon)
        return (model - step).astype(np.float32), {"square": square}
