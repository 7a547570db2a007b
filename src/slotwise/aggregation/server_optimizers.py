"""Optimisers on the server: momentum, FedAdam, FedYogi and FedAdagrad.

The step of `fedavg`, u, is their gradient. The adaptive ones are those of Reddi, Charles, Zaheer, Garrett,
Rush, Konečný, Kumar and McMahan, "Adaptive Federated Optimization", ICLR 2021, arXiv:2003.00295, Algorithm 2:

    m ← beta1·m + (1 − beta1)·u,   v as each rule says,   w_{k+1} = w_k − eta_g·m / (sqrt(v) + tau)

Before the first round m = 0 and v = tau². As in the paper there is no bias correction. ``adaptive_rate`` is
eta_g, ``server_epsilon`` is tau. The state is m and v, in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import Contribution, RuleState, Vector, sample_weighted_update
from slotwise.options import Range
from slotwise.options.checks import LARGEST_NUMBER, Value

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ServerMomentum(Value):
    """v ← beta·v + u, w_{k+1} = w_k − eta_g·v, with u the step of `fedavg` and v = 0 at the start.

    Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019, arXiv:1909.06335 (FedAvgM). ``server_momentum`` is beta, ``server_rate`` is eta_g.
    Without momentum and with eta_g = 1 it is `fedavg` to the bit. The state is v, in double precision.

    Attributes:
        server_momentum: Momentum of the server.
        server_rate: Server step size.
    """

    server_momentum: Annotated[float, Range(least=0, below=1)] = 0.9
    server_rate: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 1.0

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and the velocity."""
        velocity = sample_weighted_update(contributions)
        if "velocity" in state:
            velocity = self.server_momentum * state["velocity"] + velocity
        return (model - self.server_rate * velocity).astype(np.float32), {"velocity": velocity}


@dataclass(frozen=True)
class FedAdam(Value):
    """v ← beta2·v + (1 − beta2)·u²; see the module for the rest.

    Attributes:
        adaptive_rate: Server step size.
        server_beta1: Decay of the server's mean update.
        server_beta2: Decay of the server's mean square update.
        server_epsilon: tau, added to the root of that square.
    """

    adaptive_rate: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 0.01
    server_beta1: Annotated[float, Range(least=0, below=1)] = 0.9
    server_beta2: Annotated[float, Range(least=0, below=1)] = 0.99
    server_epsilon: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 1e-3

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
class FedAdagrad(Value):
    """v ← v + u² and m = u: beta1 is 0, as in the paper's experiments.

    Attributes:
        adaptive_rate: Server step size.
        server_epsilon: tau, added to the root of the sum of squares.
    """

    adaptive_rate: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 0.01
    server_epsilon: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 1e-3

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and the sum of squares."""
        update = sample_weighted_update(contributions)
        square: Array = state.get("square", np.full_like(update, self.server_epsilon**2)) + update**2
        step = self.adaptive_rate * update / (np.sqrt(square) + self.server_epsilon)
        return (model - step).astype(np.float32), {"square": square}
