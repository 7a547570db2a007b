"""Robust rules on IID MNIST, where a fifth of the devices sends flipped updates ten times as long."""

from typing import Any

import pytest

from slotwise.learning import Diverged, train
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

# All devices send in every round, so exactly 3 of 15 updates are those of attackers.
COMMON: dict[str, Any] = {
    **{"schedule": "sync", "devices": 15, "group_size": 15, "compute_slots": 4, "deadline": 800},
    **{"partition": "iid", "samples_per_device": 200, "channels": (4, 8), "hidden": (), "batch_size": 32},
    "learning_rate": 0.05,
}
ATTACK = {"attack": "sign-flip", "attack_share": 0.2, "attack_scale": 10.0}


def accuracy(**options: Any) -> float:
    config = RunConfig.from_options({**COMMON, **options})
    assert len(config.attackers()) == (3 if "attack" in options else 0)
    history = train(config.simulate(), build_task(config), aggregation=config.rule, workers=2)
    return float(history.accuracy[-1])


@pytest.fixture(scope="module")
def clean() -> float:
    return accuracy()


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        {"aggregation": "trimmed-mean", "trim": 0.2},
        {"aggregation": "median"},
        {"aggregation": "krum", "byzantine": 3},
        {"aggregation": "multi-krum", "byzantine": 3},
        {"aggregation": "norm-clipping"},
    ],
    ids=lambda rule: rule["aggregation"],
)
def test_robust_rules_reach_nine_tenths_of_the_accuracy_without_attackers(
    rule: dict[str, Any], clean: float
) -> None:
    assert clean > 0.8
    assert accuracy(**ATTACK, **rule) >= 0.9 * clean


@pytest.mark.slow
def test_the_mean_fails() -> None:
    try:
        found = accuracy(**ATTACK)
    except Diverged:
        return
    assert found < 0.3
