"""Krum and MultiKrum: keep the updates that are closest to their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from slotwise.aggregation.rule import Contribution, Vector
from slotwise.errors import InputError
from slotwise.scenario import whole


@dataclass(frozen=True)
class Krum:
    """w_{k+1} = w_k − u_i with the lowest score: the sum of its squared distances to S − f − 2 neighbours.

    Blanchard, El Mhamdi, Guerraoui and Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
    Gradient Descent", NIPS 2017, arXiv:1703.02757. ``byzantine`` is f, the attackers in a round that it
    tolerates; it needs S ≥ 2f + 3. Of equal scores the lower device number wins. A round with fewer updates,
    because devices are away, is aggregated with at least one neighbour each and has no guarantee.
    """

    byzantine: int = 2

    def __post_init__(self) -> None:
        whole("byzantine", self.byzantine)

    def check_group_size(self, size: int) -> None:
        """Refuse a round of fewer than 2f + 3 updates."""
        needed, most = 2 * self.byzantine + 3, (size - 3) // 2
        if size >= needed:
            return
        reason = "with f attackers Krum needs 2f + 3 updates in a round"
        if most < 1:
            allowed = f"at least {needed} with byzantine {self.byzantine}: {reason}"
            raise InputError("group_size", size, allowed)
        allowed = f"at most {most} with group_size {size}, or group_size at least {needed}: {reason}"
        raise InputError("byzantine", self.byzantine, allowed)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        best = contributions[by_score(contributions, self.byzantine)[0]]
        return (model - best.update.astype(np.float64)).astype(np.float32)


@dataclass(frozen=True)
class MultiKrum(Krum):
    """w_{k+1} = w_k − mean of the m updates with the lowest scores of `Krum`.

    ``krum_selected`` is m; None takes S − f − 2, at least 1. With m = 1 it is Krum, with m = S the mean.
    """

    krum_selected: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.krum_selected is not None:
            whole("krum_selected", self.krum_selected)

    def check_group_size(self, size: int) -> None:
        """Refuse a round of fewer than 2f + 3 updates, or one from which attackers must be selected."""
        super().check_group_size(size)
        most = size - self.byzantine
        if self.krum_selected is not None and self.krum_selected > most:
            allowed = f"at most {most}, the group_size less byzantine: more would include attackers"
            raise InputError("krum_selected", self.krum_selected, allowed)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        count = self.krum_selected
        if count is None:
            count = max(1, len(contributions) - self.byzantine - 2)
        total = np.zeros(model.shape, dtype=np.float64)
        chosen = by_score(contributions, self.byzantine)[:count]
        for index in chosen:
            total += contributions[index].update
        return (model - total / len(chosen)).astype(np.float32)


def by_score(contributions: Sequence[Contribution], byzantine: int) -> list[int]:
    """Return the positions of the contributions, the lowest Krum score first."""
    count = len(contributions)
    distances = np.full((count, count), inf)
    for i, one in enumerate(contributions):
        for j in range(i):
            # The expansion |a|² + |b|² − 2ab would cancel for updates that are close to each other.
            difference = one.update.astype(np.float64) - contributions[j].update
            distances[i, j] = distances[j, i] = np.square(difference).sum()
    neighbours = max(1, count - byzantine - 2)
    # NaN in an update makes its distances NaN: they count as infinite. An update is no neighbour of itself.
    nearest = np.sort(np.nan_to_num(distances, nan=inf, posinf=inf), axis=1)[:, :neighbours]
    scores = nearest.sum(axis=1).tolist()
    return sorted(range(count), key=lambda i: (scores[i], contributions[i].device, i))
