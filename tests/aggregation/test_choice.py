import pytest

from slotwise.aggregation import (
    AggregationConfig,
    FedAsync,
    FedBuff,
    Hinge,
    Polynomial,
    StalenessWeightedMean,
    constant,
    mean,
)
from slotwise.aggregation.contribution import Aggregation
from slotwise.errors import InputError


def rule(name: str, **options: object) -> Aggregation:
    return AggregationConfig(aggregation=name, **options).rule()  # type: ignore[arg-type]


def test_every_name_gives_its_rule() -> None:
    assert rule("mean") is mean
    assert rule("staleness-weighted") == StalenessWeightedMean(Polynomial(0.5))
    assert rule("fedasync") == FedAsync(0.6, Polynomial(0.5))
    assert rule("fedbuff") == FedBuff(1.0)


def test_options_reach_the_rule() -> None:
    assert rule("fedasync", mixing=0.9, discount="constant") == FedAsync(0.9, constant)
    hinge = {"discount": "hinge", "discount_slope": 3, "discount_grace": 2}
    assert rule("fedasync", **hinge) == FedAsync(0.6, Hinge(3, 2))
    assert rule("staleness-weighted", discount_power=1) == StalenessWeightedMean(Polynomial(1))
    assert rule("fedbuff", server_rate=0.25) == FedBuff(0.25)


@pytest.mark.parametrize(
    ("name", "options", "parameter"),
    [
        ("median", {}, "aggregation"),
        ("fedasync", {"discount": "linear"}, "discount"),
        ("fedasync", {"mixing": 2}, "mixing"),
        ("staleness-weighted", {"discount_power": -1}, "discount_power"),
        ("fedbuff", {"server_rate": 0}, "server_rate"),
    ],
)
def test_a_bad_option_is_named(name: str, options: dict[str, object], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        rule(name, **options)
    assert caught.value.parameter == parameter
