"""ServerMomentum: momentum on the server, known as FedAvgM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotwise.aggregation.checks import check_decay, check_positive
from slotwise.aggregation.rule import Contribution, RuleState, Vector
from slotwise.aggregation.sample_weighted import sample_weighted_update


@dataclass(frozen=True)
class ServerMomentum:
    """v ← beta·v + u, w_{k+1} = w_k − eta_g·v, with u the step of `fedavg` and v = 0 at the start.

    Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019, arXiv:1909.06335 (FedAvgM). ``server_momentum`` is beta, ``server_rate`` is eta_g.
    Without momentum and with eta_g = 1 it is `fedavg` to the bit. The state is v, in double precision.
    """

    server_momentum: float = 0.9
    server_rate: float = 1.0

    def __post_init__(self) -> None:
        check_decay("server_momentum", self.server_momentum)
        check_positive("server_rate", self.server_rate)

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and the velocity."""
        velocity = sample_weighted_update(contributions)
        if "velocity" in state:
            velocity = self.server_momentum * state["velocity"] + velocity
        return (model - self.server_rate * velocity).astype(np.float32), {"velocity": velocity}
