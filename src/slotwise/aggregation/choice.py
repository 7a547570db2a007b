"""The aggregation a person names."""

from __future__ import annotations

from typing import Literal

from slotwise.aggregation.averages import StalenessWeightedMean, mean
from slotwise.aggregation.contribution import Aggregation
from slotwise.aggregation.discount import Discount, Hinge, Polynomial, constant
from slotwise.aggregation.fedasync import FedAsync
from slotwise.aggregation.fedbuff import FedBuff
from slotwise.errors import InputError

AggregationName = Literal["mean", "staleness-weighted", "fedasync", "fedbuff"]
DiscountName = Literal["constant", "polynomial", "hinge"]


def aggregation_from(
    name: AggregationName,
    *,
    discount: DiscountName = "polynomial",
    power: float = 0.5,
    slope: float = 10.0,
    grace: float = 4.0,
    mixing: float = 0.6,
    server_rate: float = 1.0,
) -> Aggregation:
    """The aggregation called ``name``; it takes of the options what it needs.

    Args:
        name: mean, staleness-weighted, fedasync or fedbuff.
        discount: what age does to an update's weight (staleness-weighted and fedasync).
        power: a of the polynomial discount.
        slope: a of the hinge discount.
        grace: b of the hinge discount, the rounds of age that cost nothing.
        mixing: a of fedasync, the weight of a fresh local model.
        server_rate: eta_g of fedbuff.

    Raises:
        InputError: an unknown name, or an option that is needed and out of its range.
    """
    match name:
        case "mean":
            return mean
        case "staleness-weighted":
            return StalenessWeightedMean(_discount_from(discount, power, slope, grace))
        case "fedasync":
            return FedAsync(mixing, _discount_from(discount, power, slope, grace))
        case "fedbuff":
            return FedBuff(server_rate)
        case _:
            raise InputError("aggregation", name, "mean, staleness-weighted, fedasync or fedbuff")


def _discount_from(name: DiscountName, power: float, slope: float, grace: float) -> Discount:
    match name:
        case "constant":
            return constant
        case "polynomial":
            return Polynomial(power)
        case "hinge":
            return Hinge(slope, grace)
        case _:
            raise InputError("discount", name, "constant, polynomial or hinge")
