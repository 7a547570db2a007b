"""How the updates of a round combine into the next model. It knows no schedule and no network.

A model and an update are flat float32 vectors. An update is what local training took away from the model it
started on, w_start − w_end, so the step size is already in it. Which updates meet in a round, and how old
they are by then, is the schedule's business; an aggregation is a function of the model and of what arrived.
"""

from slotwise.aggregation.averages import StalenessWeightedMean, mean
from slotwise.aggregation.choice import AggregationConfig, AggregationName, DiscountName
from slotwise.aggregation.contribution import Aggregation, Contribution, Vector, next_model
from slotwise.aggregation.discount import Discount, Hinge, Polynomial, constant
from slotwise.aggregation.fedasync import FedAsync
from slotwise.aggregation.fedbuff import FedBuff

__all__ = [
    "Aggregation",
    "AggregationConfig",
    "AggregationName",
    "Contribution",
    "Discount",
    "DiscountName",
    "FedAsync",
    "FedBuff",
    "Hinge",
    "Polynomial",
    "StalenessWeightedMean",
    "Vector",
    "constant",
    "mean",
    "next_model",
]
