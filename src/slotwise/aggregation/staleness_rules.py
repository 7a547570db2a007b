"""Rules that look at staleness, and the discounts s(d) of updates that are d rounds old.

A discount is 1 for a fresh update and never rises. The three are those of FedAsync (Xie, Koyejo and Gupta,
"Asynchronous Federated Optimization", OPT 2020, arXiv:1903.03934, section 5), shared by the other rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any

import numpy as np

from slotwise.aggregation.rule import Contribution, RuleState, Vector
from slotwise.options import Choice, Range
from slotwise.options.checks import LARGEST_NUMBER, Value

Discount = Callable[[int], float]


def constant(staleness: int) -> float:  # noqa: ARG001
    """s(d) = 1: age does not matter."""
    return 1.0


@dataclass(frozen=True)
class Polynomial(Value):
    """s(d) = (1 + d)^(−a), with a = ``power``.

    Attributes:
        power: a of the polynomial discount, (1+d)^-a.
    """

    power: Annotated[float, Range(least=0, most=16)] = 0.5

    def __call__(self, staleness: int) -> float:
        """Return the weight s(d)."""
        return float((1.0 + staleness) ** -self.power)


@dataclass(frozen=True)
class Hinge(Value):
    """s(d) = 1 up to d = b, then 1 / (a(d − b) + 1), with a = ``slope`` and b = ``grace``.

    Attributes:
        slope: a of the hinge discount, 1/(a(d-b)+1) beyond b.
        grace: b of the hinge discount, in rounds.
    """

    slope: Annotated[float, Range(above=0, most=1_000_000)] = 10.0
    grace: Annotated[float, Range(least=0)] = 4.0

    def __call__(self, staleness: int) -> float:
        """Return the weight s(d)."""
        return 1.0 / (self.slope * max(0.0, staleness - self.grace) + 1.0)


DISCOUNTS: Mapping[str, Any] = {"constant": constant, "polynomial": Polynomial, "hinge": Hinge}
DiscountChoice = Annotated[Discount, Choice("discount", DISCOUNTS, prefix="discount_")]


@dataclass(frozen=True)
class StalenessWeightedMean:
    """w_{k+1} = w_k − Σ s(d_i) u_i / Σ s(d_i): older updates weigh less, and the weights sum to one.

    After the temporally weighted aggregation of Chen, Sun and Jin ("Communication-Efficient Federated Deep
    Learning With Layerwise Asynchronous Model Update and Temporally Weighted Aggregation", IEEE TNNLS 2020).

    The discounts are first divided by the largest of the round. So where all updates are equally old every
    weight is exactly 1, and the result is that of `mean` to the bit.

    Attributes:
        discount: Reduction of an update's weight with its age.
    """

    discount: DiscountChoice = Polynomial()

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        discounts = [self.discount(contribution.staleness) for contribution in contributions]
        largest = max(discounts)
        weights = [discount / largest for discount in discounts]
        total = np.zeros(model.shape, dtype=np.float64)
        for weight, contribution in zip(weights, contributions, strict=True):
            total += weight * contribution.update.astype(np.float64)
        return (model - total / sum(weights)).astype(np.float32)


@dataclass(frozen=True)
class FedAsync(Value):
    """w ← (1 − a_i) w + a_i w_i with a_i = a·s(d_i), for each update in the order of the uplinks.

    Xie, Koyejo and Gupta, "Asynchronous Federated Optimization", OPT 2020, arXiv:1903.03934, Algorithm 1.
    ``mixing`` is a and ``discount`` is s; w_i = w_start − u_i is the local model. The paper's server advances
    with every update, which is S = 1 here; with S > 1 it advances by S mixings at once. Between them the
    model stays in double precision, because no device receives it.

    Attributes:
        mixing: Weight of a fresh local model.
        discount: Reduction of an update's weight with its age.
    """

    mixing: Annotated[float, Range(above=0, most=1)] = 0.6
    discount: DiscountChoice = Polynomial()

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        mixed = model.astype(np.float64)
        for sent in contributions:
            weight = self.mixing * self.discount(sent.staleness)
            local = sent.start - sent.update.astype(np.float64)
            mixed = (1.0 - weight) * mixed + weight * local
        return mixed.astype(np.float32)


@dataclass(frozen=True)
class FedBuff(Value):
    """w_{k+1} = w_k − (eta_g/K) Σ u_i / sqrt(1 + d_i), where the buffer of K updates is a round of K = S.

    Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba, "Federated Learning with Buffered Asynchronous
    Aggregation", AISTATS 2022, arXiv:2106.06639. ``server_rate`` is eta_g. The discounts are not normalised:
    a round of old updates takes a shorter step. If all are fresh and eta_g is 1, it is `mean` to the bit.

    Attributes:
        server_rate: Server step size.
    """

    server_rate: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 1.0

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        total = np.zeros(model.shape, dtype=np.float64)
        for sent in contributions:
            total += sent.update.astype(np.float64) / sqrt(1 + sent.staleness)
        return (model - self.server_rate * (total / len(contributions))).astype(np.float32)


@dataclass(frozen=True)
class DelayAdaptive(Value):
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

    Attributes:
        delay_threshold: Staleness in rounds from which updates take shorter steps. Default: the mean
            staleness so far.
    """

    delay_threshold: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] | None = None

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
