"""AggregationConfig: builds an aggregation rule from its name and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slotwise.aggregation.averages import StalenessWeightedMean, mean
from slotwise.aggregation.contribution import Aggregation
from slotwise.aggregation.discount import Discount, Hinge, Polynomial, constant
from slotwise.aggregation.fedasync import FedAsync
from slotwise.aggregation.fedbuff import FedBuff
from slotwise.errors import InputError
from slotwise.option_types import check_fields

AggregationName = Literal["mean", "staleness-weighted", "fedasync", "fedbuff"]
DiscountName = Literal["constant", "polynomial", "hinge"]


@dataclass(frozen=True, kw_only=True)
class AggregationConfig:
    """How the updates of a round combine.

    Attributes:
        aggregation: Aggregation rule.
        discount: How age reduces the weight of an update (staleness-weighted, fedasync).
        discount_power: a of the polynomial discount, (1+d)^-a.
        discount_slope: a of the hinge discount, 1/(a(d-b)+1) beyond b.
        discount_grace: b of the hinge discount, in rounds.
        mixing: Weight of a fresh local model (fedasync).
        server_rate: Server step size (fedbuff).
    """

    aggregation: AggregationName = "mean"
    discount: DiscountName = "polynomial"
    discount_power: float = 0.5
    discount_slope: float = 10.0
    discount_grace: float = 4.0
    mixing: float = 0.6
    server_rate: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        self.rule()

    def rule(self) -> Aggregation:
        """Return the aggregation rule; it takes of the options what it needs."""
        match self.aggregation:
            case "mean":
                return mean
            case "staleness-weighted":
                return StalenessWeightedMean(self._discount())
            case "fedasync":
                return FedAsync(self.mixing, self._discount())
            case "fedbuff":
                return FedBuff(self.server_rate)

    def _discount(self) -> Discount:
        try:
            match self.discount:
                case "constant":
                    return constant
                case "polynomial":
                    return Polynomial(self.discount_power)
                case "hinge":
                    return Hinge(self.discount_slope, self.discount_grace)
        except InputError as error:
            raise InputError(f"discount_{error.parameter}", error.value, error.allowed) from None
