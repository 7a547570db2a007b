"""AggregationConfig: an aggregation rule by its name and options; `RULES` lists the built-in rules.

To add a rule, write it in a file of its own and add it to `RULES`. A rule is a function, or a dataclass whose
fields are options: AggregationConfig has a field of the same name for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal

from slotwise.aggregation.discount import Hinge, Polynomial, constant
from slotwise.aggregation.fedasync import FedAsync
from slotwise.aggregation.fedbuff import FedBuff
from slotwise.aggregation.model_average import model_average
from slotwise.aggregation.rule import Aggregation, mean
from slotwise.aggregation.staleness_weighted import StalenessWeightedMean
from slotwise.errors import InputError
from slotwise.scenario import check_fields, option_names, refuse_unused
from slotwise.user_code import is_function_name, load_function

RULES: Mapping[str, Callable[..., Any]] = {
    "mean": mean,
    "model-average": model_average,
    "staleness-weighted": StalenessWeightedMean,
    "fedasync": FedAsync,
    "fedbuff": FedBuff,
}
DISCOUNTS: Mapping[str, Callable[..., Any]] = {"constant": constant, "polynomial": Polynomial, "hinge": Hinge}


@dataclass(frozen=True, kw_only=True)
class AggregationConfig:
    """Rule that combines the updates of a round.

    Attributes:
        aggregation: Aggregation rule: mean, model-average, staleness-weighted, fedasync, fedbuff, or your
            own as module:function.
        discount: Reduction of an update's weight with its age (staleness-weighted, fedasync).
        discount_power: a of the polynomial discount, (1+d)^-a.
        discount_slope: a of the hinge discount, 1/(a(d-b)+1) beyond b.
        discount_grace: b of the hinge discount, in rounds.
        mixing: Weight of a fresh local model (fedasync).
        server_rate: Server step size (fedbuff).
    """

    aggregation: str = "mean"
    discount: Literal["constant", "polynomial", "hinge"] = "polynomial"
    discount_power: float = 0.5
    discount_slope: float = 10.0
    discount_grace: float = 4.0
    mixing: float = 0.6
    server_rate: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.aggregation in RULES:
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
