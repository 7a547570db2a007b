"""Aggregation rules: how the updates of a round combine into the next model.

A model and an update are flat float32 vectors. An update is w_start − w_end of a local training, so the step
size is already in it. The schedule decides which updates meet in a round; a rule is a function of the model
and of the contributions that arrived; it may also keep a state.
"""

from slotwise.aggregation.aggregation_config import RULES, AggregationConfig
from slotwise.aggregation.averaged_models import model_average
from slotwise.aggregation.coordinate_order import TrimmedMean, coordinate_median
from slotwise.aggregation.delay_adaptive import DelayAdaptive
from slotwise.aggregation.discount import Discount, Hinge, Polynomial, constant
from slotwise.aggregation.fedasync import FedAsync
from slotwise.aggregation.fedbuff import FedBuff
from slotwise.aggregation.fedopt import FedAdagrad, FedAdam, FedYogi
from slotwise.aggregation.krum import Krum, MultiKrum
from slotwise.aggregation.norm_clipping import NormClipping
from slotwise.aggregation.rule import (
    NO_STATE,
    Aggregation,
    Contribution,
    RuleState,
    Vector,
    check_group_sizes,
    keeps_state,
    mean,
    next_model,
)
from slotwise.aggregation.sample_weighted import fedavg
from slotwise.aggregation.server_momentum import ServerMomentum
from slotwise.aggregation.staleness_weighted import StalenessWeightedMean

__all__ = [
    "NO_STATE", "RULES", "Aggregation", "AggregationConfig", "Contribution", "DelayAdaptive", "Discount",
    "FedAdagrad", "FedAdam", "FedAsync", "FedBuff", "FedYogi", "Hinge", "Krum", "MultiKrum", "NormClipping",
    "Polynomial", "RuleState", "ServerMomentum", "StalenessWeightedMean", "TrimmedMean", "Vector",
    "check_group_sizes", "constant",
    "coordinate_median", "fedavg", "keeps_state", "mean", "model_average", "next_model",
]  # fmt: skip
