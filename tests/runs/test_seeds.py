"""Fleet, data and model have seeds of their own that default to the seed of the run."""

from pathlib import Path

import numpy as np
import pytest

from slotwise.batch.job import schedule_summary, schedule_timeline
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

SMALL = RunConfig().with_options(devices=6, group_size=2, samples_per_device=8, channels=(2,), hidden=())


def rows(config: RunConfig) -> np.ndarray:
    return build_task(config).samples.rows  # type: ignore[attr-defined]


def test_by_default_all_are_the_seed_of_the_run_and_each_can_be_given() -> None:
    config = SMALL.with_options(seed=5)
    assert (config.fleet_seed, config.data_seed, config.model_seed) == (5, 5, 5)
    config = SMALL.with_options(seed=5, jitter=0.1, fleet_seed=1, data_seed=2, model_seed=0)
    assert (config.fleet_seed, config.data_seed, config.model_seed) == (1, 2, 0)


def test_seeds_of_data_and_fleet_fix_partition_and_fleet() -> None:
    one, other = SMALL.with_options(seed=1, data_seed=7), SMALL.with_options(seed=2, data_seed=7)
    assert np.array_equal(rows(one), rows(other))
    assert np.array_equal(rows(one), rows(SMALL.with_options(seed=7)))
    assert not np.array_equal(rows(one), rows(SMALL.with_options(seed=1)))
    unequal = SMALL.with_options(compute_distribution="uniform:1:99")
    one, other = unequal.with_options(seed=1, fleet_seed=7), unequal.with_options(seed=2, fleet_seed=7)
    assert one.make_fleet() == other.make_fleet() == unequal.with_options(seed=7).make_fleet()
    assert one.make_fleet() != unequal.with_options(seed=1).make_fleet()
    unequal = SMALL.with_options(compute_distribution="uniform:1:99", deadline=2000)
    fixed = [unequal.with_options(seed=seed, fleet_seed=7) for seed in (1, 2)]
    assert schedule_timeline(fixed[0]) is schedule_timeline(fixed[1])
    assert schedule_timeline(fixed[0]) == unequal.with_options(seed=7).simulate()
    assert schedule_summary(fixed[0]) != schedule_summary(unequal.with_options(seed=7, fleet_seed=8))
    chosen = unequal.with_options(schedule="sync", participation="random", fleet_seed=7)
    assert schedule_timeline(chosen.with_options(seed=1)) != schedule_timeline(chosen.with_options(seed=2))


@pytest.mark.parametrize(
    ("options", "depends"),
    [
        ({}, False),
        ({"schedule": "sync", "participation": "random"}, True),
        ({"selection": "random"}, True),
        ({"device_compute_slots": (1, 2, 3, 4, 5, 6)}, False),
        ({"jitter": 0.3}, True),
        ({"jitter": 0.3, "fleet_seed": 4}, False),
        ({"jitter": 0.3, "fleet_seed": 4, "selection": "random"}, True),
        ({"schedule": "no_such_module:make_policy"}, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
def test_a_configuration_says_if_its_schedule_depends_on_the_seed(
    options: dict[str, object], depends: bool
) -> None:
    assert SMALL.with_options(**options).schedule_depends_on_seed == depends


def test_cached_schedules_of_your_own_policy_depend_on_the_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "delayed_by_seed.py").write_text(
        "from slotwise.schedule import IntentionalDelay\n"
        "def make_policy(seed): return IntentionalDelay(delay=seed)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = SMALL.with_options(schedule="delayed_by_seed:make_policy", deadline=2000)
    assert [schedule_timeline(own.with_options(seed=seed)).delay for seed in (0, 1)] == [0, 1]
