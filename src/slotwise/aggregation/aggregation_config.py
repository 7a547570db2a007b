"""AggregationConfig: an aggregation rule by its name and options; `RULES` lists the built-in rules.

To add a rule, write it in a file of its own and add it to `RULES`. A rule is a function, or a dataclass whose
fields are options: AggregationConfig has a field of the same name for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal

from slotwise.aggregation.averaged_models import model_average
from slotwise.aggregation.coordinate_order import TrimmedMean, coordinate_median
from slotwise.aggregation.delay_adaptive import DelayAdaptive
from slotwise.aggregation.discount import Hinge, Polynomial, constant
from slotwise.aggregation.fedasync import FedAsync
from slotwise.aggregation.fedbuff import FedBuff
from slotwise.aggregation.fedopt import FedAdagrad, FedAdam, FedYogi
from slotwise.aggregation.krum import Krum, MultiKrum
from slotwise.aggregation.norm_clipping import NormClipping
from slotwise.aggregation.rule import Aggregation, check_group_sizes, mean
from slotwise.aggregation.sample_weighted import fedavg
from slotwise.aggregation.server_momentum import ServerMomentum
from slotwise.aggregation.staleness_weighted import StalenessWeightedMean
from slotwise.errors import InputError
from slotwise.scenario import check_fields, option_names, refuse_unused
from slotwise.user_code import is_function_name, load_function

RULES: Mapping[str, Callable[..., Any]] = {
    "mean": mean,
    "fedavg": fedavg,
    "model-average": model_average,
    "staleness-weighted": StalenessWeightedMean,
    "fedasync": FedAsync,
    "fedbuff": FedBuff,
    "delay-adaptive": DelayAdaptive,
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
DISCOUNTS: Mapping[str, Callable[..., Any]] = {"constant": constant, "polynomial": Polynomial, "hinge": Hinge}


@dataclass(frozen=True, kw_only=True)
class AggregationConfig:
    """Rule that combines the updates of a round.

    Attributes:
        aggregation: Aggregation rule: mean, fedavg (weighted by samples), model-average,
            staleness-weighted, fedasync, fedbuff, delay-adaptive, fedavgm, fedadam, fedyogi, fedadagrad,
            trimmed-mean, median, krum, multi-krum, norm-clipping, or your own as module:function.
        discount: Reduction of an update's weight with its age (staleness-weighted, fedasync).
        discount_power: a of the polynomial discount, (1+d)^-a.
        discount_slope: a of the hinge discount, 1/(a(d-b)+1) beyond b.
        discount_grace: b of the hinge discount, in rounds.
        mixing: Weight of a fresh local model (fedasync).
        server_rate: Server step size (fedbuff, fedavgm).
        delay_threshold: Staleness in rounds from which updates take shorter steps (delay-adaptive).
            Default: the mean staleness so far.
        server_momentum: Momentum of the server (fedavgm).
        adaptive_rate: Server step size of fedadam, fedyogi and fedadagrad.
        server_beta1: Decay of the server's mean update (fedadam, fedyogi).
        server_beta2: Decay of the server's mean square update (fedadam, fedyogi).
        server_epsilon: tau, added to the root of that square (fedadam, fedyogi, fedadagrad).
        trim: Share of the updates dropped at each end of a coordinate (trimmed-mean).
        byzantine: Attackers in a round to tolerate (krum, multi-krum); needs 2f+3 updates in a round.
        krum_selected: Updates that are averaged (multi-krum). Default: group size - byzantine - 2.
        largest_norm: Norm to which longer updates are scaled down (norm-clipping). Default: the median
            norm of the round.
    """

    aggregation: str = "mean"
    discount: Literal["constant", "polynomial", "hinge"] = "polynomial"
    discount_power: float = 0.5
    discount_slope: float = 10.0
    discount_grace: float = 4.0
    mixing: float = 0.6
    server_rate: float = 1.0
    delay_threshold: float | None = None
    server_momentum: float = 0.9
    adaptive_rate: float = 0.01
    server_beta1: float = 0.9
    server_beta2: float = 0.99
    server_epsilon: float = 1e-3
    trim: float = 0.2
    byzantine: int = 2
    krum_selected: int | None = None
    largest_norm: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.aggregation in RULES:
            # The rule checks its own options.
            self.rule()
        elif not is_function_name(self.aggregation):
            raise InputError("aggregation", self.aggregation, f"{', '.join(RULES)} or module:function")
        refuse_unused(self)

    def unused(self) -> dict[str, str]:
        """Return the options that the rule does not have, with the reason."""
        used, chosen = {"aggregation", *_options(RULES.get(self.aggregation))}, self.aggregation
        if "discount" in used:
            used |= {f"discount_{name}" for name in _options(DISCOUNTS[self.discount])}
            chosen += f" and discount {self.discount}"
        return {name: f"with aggregation {chosen}" for name in option_names(self) if name not in used}

    def check_group_size(self, size: int) -> None:
        """Refuse options of a built-in rule that do not fit rounds of ``size`` updates."""
        if self.aggregation in RULES:
            check_group_sizes(self.rule(), [size])

    def rule(self) -> Aggregation:
        """Return the aggregation rule, built from those options that it has.

        Raises:
            UserError: a rule given as module:function cannot be imported.
        """
        if self.aggregation not in RULES:
            return load_function("aggregation", self.aggregation, 2, 3)
        rule, discount = RULES[self.aggregation], DISCOUNTS[self.discount]
        options = {name: getattr(self, name) for name in _options(rule)}
        if "discount" in options:
            parameters = {name: getattr(self, f"discount_{name}") for name in _options(discount)}
            try:
                options["discount"] = discount(**parameters) if parameters else discount
            except InputError as error:
                raise InputError(f"discount_{error.parameter}", error.value, error.allowed) from None
        return rule(**options) if options else rule


def _options(rule: Callable[..., Any] | None) -> tuple[str, ...]:
    return option_names(rule) if is_dataclass(rule) else ()
