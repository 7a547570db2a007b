import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from slotwise.aggregation import (
    RULE,
    RULES,
    Ace,
    Aggregation,
    Ca2fl,
    Contribution,
    DelayAdaptive,
    DelayCompensated,
    FedAdagrad,
    FedAdam,
    FedAsync,
    FedBuff,
    FedDyn,
    FedVarp,
    FedYogi,
    Hinge,
    Krum,
    Mifa,
    MultiKrum,
    NormClipping,
    Polynomial,
    Scaffold,
    ServerMomentum,
    StalenessWeightedMean,
    TrimmedMean,
    Vector,
    check_group_sizes,
    constant,
    coordinate_median,
    fedavg,
    mean,
)
from slotwise.aggregation.staleness_rules import DISCOUNTS
from slotwise.base.errors import InputError
from slotwise.options import choose, loaded
from slotwise.runs import RunConfig


def rule(name: str, **options: object) -> Aggregation:
    return cast(Aggregation, choose(RULE, {"aggregation": name, **options}))


def test_every_name_gives_its_rule() -> None:
    assert rule("mean") is mean
    assert rule("staleness-weighted") == StalenessWeightedMean(Polynomial(0.5))
    assert rule("fedasync") == FedAsync(0.6, Polynomial(0.5))
    assert rule("fedbuff") == FedBuff(1.0)
    assert rule("fedavg") is fedavg
    assert rule("delay-adaptive") == DelayAdaptive()
    assert rule("delay-compensated") == DelayCompensated(1.0)
    assert rule("mifa") == Mifa(1.0)
    assert rule("fedvarp") == FedVarp(1.0)
    assert rule("ca2fl") == Ca2fl(1.0)
    assert rule("ace", memory_age=3) == Ace(1.0, 3)
    assert rule("scaffold", server_rate=0.5) == Scaffold(0.5)
    assert rule("feddyn") == FedDyn(0.1)
    assert rule("fedavgm") == ServerMomentum(0.9, 1.0)
    assert rule("fedadam") == FedAdam(0.01, 0.9, 0.99, 1e-3)
    assert rule("fedyogi") == FedYogi(0.01, 0.9, 0.99, 1e-3)
    assert rule("fedadagrad") == FedAdagrad(0.01, 1e-3)
    assert rule("trimmed-mean") == TrimmedMean(0.2)
    assert rule("median") is coordinate_median
    assert rule("krum") == Krum(2)
    assert rule("multi-krum", krum_selected=3) == MultiKrum(2, 3)
    assert rule("norm-clipping", largest_norm=2) == NormClipping(2.0)


@pytest.mark.parametrize(
    ("name", "options", "size", "parameter"),
    [
        ("krum", {}, 6, "byzantine"),
        ("krum", {}, 2, "group_size"),
        ("krum", {"byzantine": 1}, 4, "group_size"),
        ("multi-krum", {"byzantine": 4}, 10, "byzantine"),
        ("multi-krum", {"krum_selected": 9}, 10, "krum_selected"),
        ("trimmed-mean", {}, 4, "trim"),
        ("trimmed-mean", {}, 2, "group_size"),
    ],
)
def test_a_group_that_is_too_small_for_the_rule_is_refused_before_a_run(
    name: str, options: dict[str, object], size: int, parameter: str
) -> None:
    rule(name, **options)
    with pytest.raises(InputError) as caught:
        RunConfig.from_options({"aggregation": name, "group_size": size, **options})
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("name", "options"),
    [("krum", {}), ("multi-krum", {"byzantine": 9}), ("trimmed-mean", {}), ("trimmed-mean", {"trim": 0.3})],
    ids=["krum", "multi-krum", "trimmed-mean", "trim"],
)
def test_the_group_size_that_a_message_names_is_the_smallest(name: str, options: dict[str, object]) -> None:
    chosen = rule(name, **options)
    with pytest.raises(InputError, match=r"at least (\d+)") as caught:
        check_group_sizes(chosen, [2])
    smallest = int(caught.value.allowed.split()[2])
    check_group_sizes(chosen, [smallest])
    with pytest.raises(InputError):
        check_group_sizes(chosen, [smallest - 1])


def test_the_smallest_group_of_a_rule_is_accepted() -> None:
    for name, options, size in (
        ("krum", {}, 7),
        ("multi-krum", {"krum_selected": 5}, 7),
        ("trimmed-mean", {}, 5),
        ("median", {}, 1),
    ):
        RunConfig.from_options({"aggregation": name, "group_size": size, **options})


def test_options_reach_the_rule_and_those_of_others_pass_in_old_run_json() -> None:
    assert rule("fedasync", mixing=0.9, discount="constant") == FedAsync(0.9, constant)
    hinge = {"discount": "hinge", "discount_slope": 3, "discount_grace": 2}
    assert rule("fedasync", **hinge) == FedAsync(0.6, Hinge(3, 2))
    assert rule("staleness-weighted", discount_power=1) == StalenessWeightedMean(Polynomial(1))
    assert rule("fedbuff", server_rate=0.25) == FedBuff(0.25)
    for name in RULES:
        saved = {"discount": "polynomial", "discount_power": 0.5, "mixing": 0.6, "server_rate": 1.0}
        assert RunConfig.from_saved({"aggregation": name, **saved}).rule == rule(name)


@pytest.mark.parametrize(
    ("name", "options", "parameter"),
    [
        ("fedasync", {"server_rate": 2}, "server_rate"),
        ("fedasync", {"discount": "hinge", "discount_power": 1}, "discount_power"),
        ("fedbuff", {"discount": "constant"}, "discount"),
        ("my_rules:median", {"mixing": 0.5}, "mixing"),
    ],
)
def test_an_option_that_the_rule_does_not_have_is_refused(
    name: str, options: dict[str, object], parameter: str
) -> None:
    with pytest.raises(InputError) as caught:
        rule(name, **options)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_the_same_defaults_in_python_and_as_an_option(name: str) -> None:
    made = RULES[name]() if isinstance(RULES[name], type) else RULES[name]
    assert rule(name) == made


@pytest.mark.parametrize("name", DISCOUNTS)
def test_a_discount_has_the_same_defaults_in_python_and_as_an_option(name: str) -> None:
    made = DISCOUNTS[name]() if isinstance(DISCOUNTS[name], type) else DISCOUNTS[name]
    assert rule("staleness-weighted", discount=name) == StalenessWeightedMean(made)


def test_a_new_rule_is_an_entry_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def latest(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        return model - contributions[-1].update

    monkeypatch.setitem(cast(dict[str, Any], RULES), "latest", latest)
    assert rule("latest") is latest


def test_a_rule_of_the_user_is_loaded_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / f"rules_{tmp_path.name}.py").write_text(
        "def last(model, sent): return model - sent[-1].update\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    assert loaded(rule(f"rules_{tmp_path.name}:last")).__name__ == "last"


def test_a_rule_that_cannot_be_loaded_is_refused_only_when_it_is_needed() -> None:
    own = rule("no_such_module:f")  # a run of somebody else can still be shown
    with pytest.raises(InputError) as caught:
        loaded(own)
    assert caught.value.parameter == "aggregation"
