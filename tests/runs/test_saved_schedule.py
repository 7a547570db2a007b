"""Numbers of a timeline in a run folder, and the timelines that a process keeps."""

from pathlib import Path

import pytest

from slotwise.learning import Point
from slotwise.runs import RunConfig, RunFolder, SavedRun, run_timeline
from slotwise.runs.run_timeline import (
    SCHEDULE,
    SavedSchedule,
    keep_timeline,
    known_timeline,
    schedule_timeline,
)
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Powers

POWERS = Powers(computing=2, sending=1, receiving=0.5)
CONFIG = RunConfig.from_options({"devices": 4, "group_size": 2, "compute_slots": 4, "deadline": 60})


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """The configurations that are simulated; none has been before."""
    simulate, configs = RunConfig.simulate, list[RunConfig]()

    def count(config: RunConfig, *rounds: int) -> Timeline:
        configs.append(config)
        return simulate(config, *rounds)

    monkeypatch.setattr(run_timeline, "_TIMELINES", run_timeline.Timelines())
    monkeypatch.setattr(RunConfig, "simulate", count)
    return configs


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run with two evaluations and the numbers of its timeline."""
    timeline, run = CONFIG.simulate(), RunFolder.create(tmp_path / "run", CONFIG)
    last = Point(timeline.last_slot, timeline.rounds, 1.0, 0.5, 1)
    run.write_points([Point(0, 0, 2.0, 0.1, 0), last])
    saved = run.read()
    SavedSchedule.of(timeline, saved.points).save(run.path, saved.description, saved.points)
    return run


def test_numbers_that_were_saved_are_those_of_the_timeline(
    folder: RunFolder, simulated: list[RunConfig]
) -> None:
    saved = SavedRun.read(folder.path)
    curve, totals = saved.curve(POWERS), saved.schedule.totals
    assert simulated == []
    (folder.path / SCHEDULE).unlink()
    again = SavedRun.read(folder.path)
    assert (again.curve(POWERS), again.schedule.totals) == (curve, totals)
    assert len(simulated) == 1


@pytest.mark.parametrize("change", ["damaged", "{}", "points", "options"])
def test_numbers_of_anything_else_are_not_used(
    folder: RunFolder, simulated: list[RunConfig], change: str
) -> None:
    path = folder.path / SCHEDULE
    if change == "points":
        folder.write_points([Point(0, 0, 2.0, 0.1, 0)])
    elif change == "options":
        folder.write_description(CONFIG.with_options(learning_rate=0.5), "finished")
    else:
        path.write_text(change)
    assert SavedRun.read(folder.path).curve(POWERS)[0].updates == 0
    assert len(simulated) == 1


def test_a_process_keeps_timelines_up_to_some_memory(
    simulated: list[RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CONFIG.with_options(group_size=1)
    assert known_timeline(CONFIG) is None
    timeline = schedule_timeline(CONFIG.with_options(learning_rate=0.5, seed=3))  # the same schedule
    assert known_timeline(CONFIG) is schedule_timeline(CONFIG) is timeline
    keep_timeline(other, timeline)
    assert schedule_timeline(other) is timeline
    assert len(simulated) == 1
    monkeypatch.setattr(run_timeline, "MOST_BYTES", 1)
    last = schedule_timeline(CONFIG.with_options(group_size=4))
    assert (known_timeline(CONFIG), known_timeline(other)) == (None, None)
    assert schedule_timeline(CONFIG.with_options(group_size=4)) is last
