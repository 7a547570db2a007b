"""Aggregation rules: how the updates of a round combine into the next model.

A model and an update are flat float32 vectors. An update is w_start − w_end of a local training, so the step
size is already in it. The schedule decides which updates meet in a round; a rule is a function of the model
and of the contributions that arrived; it may also keep a state.

To add a rule, write a function, or a frozen dataclass whose fields are its options, and name it in `RULES`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from slotwise.aggregation.drift_rules import (
    Correction,
    DriftRule,
    FedDyn,
    Scaffold,
    device_half,
    message_parts,
)
from slotwise.aggregation.memory_rules import Ace, Ca2fl, DelayCompensated, FedVarp, Mifa
from slotwise.aggregation.reception import Reception, UplinkRadio
from slotwise.aggregation.robust_rules import Krum, MultiKrum, NormClipping, TrimmedMean, coordinate_median
from slotwise.aggregation.rule import (
    NO_STATE,
    Aggregation,
    Contribution,
    RuleState,
    Vector,
    check_group_sizes,
    fedavg,
    keeps_state,
    mean,
    model_average,
    next_model,
)
from slotwise.aggregation.server_optimizers import FedAdagrad, FedAdam, FedYogi, ServerMomentum
from slotwise.aggregation.staleness_rules import (
    DelayAdaptive,
    Discount,
    FedAsync,
    FedBuff,
    Hinge,
    Polynomial,
    StalenessWeightedMean,
    constant,
)
from slotwise.options import Choice

RULES: Mapping[str, Any] = {
    "mean": mean,
    "fedavg": fedavg,
    "model-average": model_average,
    "staleness-weighted": StalenessWeightedMean,
    "fedasync": FedAsync,
    "fedbuff": FedBuff,
    "delay-adaptive": DelayAdaptive,
    "delay-compensated": DelayCompensated,
    "mifa": Mifa,
    "fedvarp": FedVarp,
    "ca2fl": Ca2fl,
    "ace": Ace,
    "scaffold": Scaffold,
    "feddyn": FedDyn,
    "fedavgm": ServerMomentum,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
    "trimmed-mean": TrimmedMean,
    "median": coordinate_median,
    "krum": Krum,
    "multi-krum": MultiKrum,
    "norm-clipping": NormClipping,
}
RULE = Choice("aggregation", RULES, own=(2, 3))
RuleChoice = Annotated[Any, RULE]
"""A rule of a run: a value of one of the classes above, a function, or a `UserFunction`."""

__all__ = [
    "NO_STATE", "RULE", "RULES", "Ace", "Aggregation", "Ca2fl", "Contribution", "Correction",
    "DelayAdaptive", "DelayCompensated", "Discount", "DriftRule", "FedAdagrad", "FedAdam", "FedAsync",
    "FedBuff", "FedDyn", "FedVarp", "FedYogi", "Hinge", "Krum", "Mifa", "MultiKrum", "NormClipping",
    "Polynomial", "Reception", "RuleChoice", "RuleState", "Scaffold", "ServerMomentum",
    "StalenessWeightedMean", "TrimmedMean", "UplinkRadio", "Vector", "check_group_sizes", "constant",
    "coordinate_median", "device_half", "fedavg", "keeps_state", "mean", "message_parts",
    "model_average", "next_model",
]  # fmt: skip
