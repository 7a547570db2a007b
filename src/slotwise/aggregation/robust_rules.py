"""Robust rules: trimmed mean, median, Krum, multi-Krum and clipping of norms.

Trimmed mean and median sort the numbers of each coordinate: Yin, Chen, Ramchandran and Bartlett,
"Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018, arXiv:1803.01498
(Algorithm 1). Their result does not depend on the order of the updates. NaN is larger than all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import Contribution, Vector
from slotwise.base.errors import InputError
from slotwise.options import Range
from slotwise.options.checks import LARGEST_NUMBER, Value

ROUNDING = 1e-9  # more than that of trim·S: 0.29 · 100 is below 29
BLOCK = 1 << 16  # coordinates sorted at once: the updates of a round are not copied as a whole


def coordinate_median(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = w_k − median of the updates, each coordinate by itself.

    With an even number of updates it is the mean of the two in the middle.
    """
    count = len(contributions)
    # This leaves one of an odd number of updates, and two of an even number.
    return (model - _middle_mean(contributions, (count - 1) // 2)).astype(np.float32)


@dataclass(frozen=True)
class TrimmedMean(Value):
    """w_{k+1} = w_k − mean of each coordinate without its b largest and b smallest numbers.

    ``trim`` is the share dropped at each end, from above 0 to below 0.5: b = floor(trim·S). It should be at
    least the share of attackers in a round.

    Attributes:
        trim: Share of the updates dropped at each end of a coordinate.
    """

    trim: Annotated[float, Range(above=0, below=0.5)] = 0.2

    def check_group_size(self, size: int) -> None:
        """Refuse a round of fewer than 3 updates, and a share that drops no update of a full round."""
        if self._dropped(size):
            return
        if size < 3:
            # The smallest size of which `_dropped` is not 0.
            needed = ceil((1 - ROUNDING) / self.trim)
            allowed = f"at least {needed} with trim {self.trim:g}, and at least 3 with any trim"
            raise InputError("group_size", size, f"{allowed}: fewer updates cannot be trimmed at both ends")
        allowed = f"at least {1 / size:g}: of {size} updates in a round it drops none"
        raise InputError("trim", self.trim, allowed)

    def _dropped(self, count: int) -> int:
        return int(self.trim * count + ROUNDING)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        dropped = self._dropped(len(contributions))
        return (model - _middle_mean(contributions, dropped)).astype(np.float32)


def _middle_mean(contributions: Sequence[Contribution], dropped: int) -> NDArray[np.float64]:
    """Return the mean of each coordinate without so many numbers at each end."""
    size, kept = len(contributions[0].update), slice(dropped, len(contributions) - dropped)
    result = np.empty(size, dtype=np.float64)
    for first in range(0, size, BLOCK):
        part = slice(first, min(first + BLOCK, size))
        ordered = np.sort(np.stack([sent.update[part] for sent in contributions]), axis=0)[kept]
        total = np.zeros(ordered.shape[1], dtype=np.float64)
        for row in ordered:
            total += row
        result[part] = total / len(ordered)
    return result


@dataclass(frozen=True)
class Krum(Value):
    """w_{k+1} = w_k − u_i with the lowest score: the sum of its squared distances to S − f − 2 neighbours.

    Blanchard, El Mhamdi, Guerraoui and Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
    Gradient Descent", NIPS 2017, arXiv:1703.02757. ``byzantine`` is f, the attackers in a round that it
    tolerates; it needs S ≥ 2f + 3. Of equal scores the lower device number wins. A round with fewer updates,
    because devices are away, is aggregated with at least one neighbour each and has no guarantee.

    Attributes:
        byzantine: Attackers in a round to tolerate; needs 2f+3 updates in a round.
    """

    byzantine: Annotated[int, Range(least=1)] = 2

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

    Attributes:
        krum_selected: Updates that are averaged. Default: group size - byzantine - 2.
    """

    krum_selected: Annotated[int, Range(least=1)] | None = None

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


@dataclass(frozen=True)
class NormClipping(Value):
    """w_{k+1} = w_k − (1/S) Σ u_i · min(1, M/‖u_i‖): longer updates are scaled down to length M.

    Sun, Kairouz, Suresh and McMahan, "Can You Really Backdoor Federated Learning?", 2019, arXiv:1911.07963.
    ``largest_norm`` is M. None takes the median length of the round's updates, the lower one of two, which
    needs no knowledge of the task. An update that is not finite counts as zero.

    Attributes:
        largest_norm: Norm to which longer updates are scaled down. Default: the median norm of the round.
    """

    largest_norm: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] | None = None

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
