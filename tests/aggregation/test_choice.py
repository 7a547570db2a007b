import pytest

from slotwise.aggregation import (
    FedAsync,
    FedBuff,
    Hinge,
    Polynomial,
    StalenessWeightedMean,
    aggregation_from,
    constant,
    mean,
)
from slotwise.errors import InputError


def test_every_name_gives_its_aggregation() -> None:
    assert aggregation_from("mean") is mean
    assert aggregation_from("staleness-weighted") == StalenessWeightedMean(Polynomial(0.5))
    assert aggregation_from("fedasync") == FedAsync(0.6, Polynomial(0.5))
    assert aggregation_from("fedbuff") == FedBuff(1.0)


def test_the_options_arrive() -> None:
    assert aggregation_from("fedasync", mixing=0.9, discount="constant") == FedAsync(0.9, constant)
    assert aggregation_from("fedasync", discount="hinge", slope=3, grace=2) == FedAsync(0.6, Hinge(3, 2))
    assert aggregation_from("staleness-weighted", power=1) == StalenessWeightedMean(Polynomial(1))
    assert aggregation_from("fedbuff", server_rate=0.25) == FedBuff(0.25)


def test_options_of_others_do_not_matter() -> None:
    assert aggregation_from("mean", mixing=7, power=-1, server_rate=0) is mean


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "median",
            {},
            "aggregation = median: must be mean, staleness-weighted, fedasync or fedbuff",
        ),
        ("fedasync", {"discount": "linear"}, "discount = linear: must be constant, polynomial or hinge"),
        ("fedasync", {"mixing": 2}, "mixing = 2: must be a number above 0 and at most 1"),
        ("staleness-weighted", {"power": -1}, "power = -1: must be a number from 0 to 16"),
        ("fedbuff", {"server_rate": 0}, "server_rate = 0: must be a finite number above 0"),
    ],
)
def test_a_mistake_is_told_in_one_line(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        aggregation_from(name, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message
