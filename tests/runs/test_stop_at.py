"""Runs that stop at a target: status, files, costs and batches of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from slotwise import recommend
from slotwise.base.errors import InputError
from slotwise.batch import BatchSpec, run_batch
from slotwise.learning import AtTarget, Task
from slotwise.live.server.server_config import LivePlan
from slotwise.runs import RunConfig, SavedRun, resume, run

OPTIONS = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": 200, "evaluate_every": 5}
LEARNING = {"network": "logistic", "samples_per_device": 20}


def at(parameters: RunConfig, target: str) -> RunConfig:
    return replace(parameters, end=AtTarget(stop_at=target))


def test_a_run_that_reaches_its_target_is_complete(tmp_path: Path, parameters: RunConfig, toy: Task) -> None:
    result = run(at(parameters, "accuracy=0.9"), tmp_path / "run", task=toy)
    saved = SavedRun.read(tmp_path / "run")
    assert result.status == saved.status == "reached"
    last = saved.points[-1]
    assert last.accuracy >= 0.9 > max(point.accuracy for point in saved.points[:-1])
    assert saved.rounds == last.round < result.timeline.rounds
    assert saved.schedule.totals == result.timeline.first(last.round).totals()
    again = resume(tmp_path / "run", task=toy)
    assert (again.status, again.history.rounds) == ("reached", last.round)


def test_a_run_that_does_not_reach_it_is_finished(tmp_path: Path, parameters: RunConfig, toy: Task) -> None:
    result = run(at(parameters, "loss=1e-9"), tmp_path / "run", task=toy)
    assert result.status == "finished"
    assert result.history.rounds == result.timeline.rounds


def test_the_option_is_part_of_the_table_only_if_it_is_given() -> None:
    assert "stop_at" not in RunConfig().options()
    config = RunConfig.from_options({"stop_at": "accuracy=0.9"})
    assert config.options()["stop_at"] == "accuracy=0.9"
    assert RunConfig.from_saved(config.options()) == config


def test_a_batch_has_time_to_the_target_and_counts_seeds_that_miss_it(tmp_path: Path) -> None:
    base = {**OPTIONS, **LEARNING, "stop_at": "accuracy=0.3"}
    spec = BatchSpec.of({"": base}, axes={"learning_rate": [0.1, 1e-6]}, seeds=[0, 1])
    results = run_batch(spec, tmp_path / "batch", executor="serial", workers=1)
    assert results.is_finished
    table = results.columns()
    assert table["status"] == ["reached", "reached", "finished", "finished"]
    for row in results.rows[:2]:
        assert row.outcome.statistics is not None
        assert row.outcome.statistics.slots == row.outcome.curve[-1].slot < 200
    summary = results.table()
    reached = next(column for column in summary.columns if column.name == "slots_to_target")
    assert [(len(cell.values), cell.seeds) for cell in reached.cells] == [(2, 2), (0, 2)]
    assert run_batch(spec, tmp_path / "batch", executor="serial").columns() == table


def test_whole_runs_are_needed_elsewhere() -> None:
    config = RunConfig.from_options({**OPTIONS, "stop_at": "loss=0.5"})
    for use in (LivePlan.of, recommend):
        with pytest.raises(InputError) as caught:
            use(config)
        assert caught.value.parameter == "stop_at"
