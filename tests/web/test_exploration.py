"""Contents of the explorer: copies that run and give the same, figures of group sizes, what is kept."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.cli.app import run as run_command
from slotwise.report.gantt.chart import Window, activity_table
from slotwise.runs import RunConfig
from slotwise.schedule import Timeline
from slotwise.web import exploration
from slotwise.web.answers import Answers, Sweeps
from slotwise.web.controls import effective, parse_options

SMALL = {"devices": "12", "group_size": "3", "compute_slots": "6", "deadline": "200"}
CASES: dict[str, dict[str, str]] = {
    "sync": {"schedule": "sync", "participation": "random"},
    "delay": {"delay": "1"},
    "unequal": {"compute_distribution": "two-classes:3:12:0.3", "jitter": "0.2", "fleet_seed": "4"},
    "lossy": {"uplink_loss": "0.3", "retransmission": "at-once", "sub_channels": "2"},
    "changes": {"group_size_changes": "6@50, 2@100"},
    "radio": {"radio_link": "rate-adaptive", "radio_noise_dbm_hz": "-170", "selection": "best-channel"},
    "batteries": {"battery_joules": "20", "computing_joules": "1", "harvest_joules": "1"},
    "absences": {"mean_present": "60", "mean_away": "20", "schedule": "async", "selection": "round-robin"},
    "links": {"link_distribution": "uniform:1:3", "link_slots": "2"},
}


@pytest.mark.parametrize("case", CASES)
def test_copies_run_and_give_the_same(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = parse_options(SMALL | CASES[case])
    expected = effective(options)[0].simulate()
    forms = exploration.view(exploration.Timelines(), options, None, brief=True)["forms"]
    assert run_command([*shlex.split(forms["command"])[1:], "--json"]) == 0
    found = [Timeline.from_json(capsys.readouterr().out)]
    (tmp_path / "run.toml").write_text(forms["toml"])
    found.append(RunConfig.from_toml(tmp_path / "run.toml").simulate())
    names: dict[str, Any] = {}
    exec(forms["python"], names)
    found.append(names["timeline"])
    # Compute slots of the scenario have no effect if each device has its own, and are not copied.
    assert [replace(timeline, scenario=expected.scenario) for timeline in found] == [expected] * 3


def test_figures_of_group_sizes_are_kept_until_another_option_changes() -> None:
    sweeps, options = Sweeps(), parse_options({**SMALL, "uplink_loss": "0.2"})
    first = sweeps.begin(options)
    assert first["rows"] == []
    rows = [row for sizes in first["missing"] for row in sweeps.rows(options, sizes)]
    assert {1, 2, 3, 4, 6, 12} <= {row["group_size"] for row in rows}
    for row in rows:
        for schedule in ("sync", "async", "idfl"):
            size = {"group_size": row["group_size"], "schedule": schedule}
            timeline = effective({**options, **size})[0].simulate()
            assert row[schedule]["rounds"] == timeline.rounds
            assert row[schedule]["mean_staleness"] == timeline.mean_staleness()
    again = sweeps.begin({**options, "group_size": 7, "schedule": "async"})
    assert again["missing"] == [[7]]
    assert all(row in rows for row in again["rows"])
    assert sweeps.begin({**options, "uplink_loss": 0.3})["rows"] == []


def test_long_timelines_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "KEPT_UPLINKS", 500)
    timelines = exploration.Timelines()
    for size in range(1, 13):
        timelines.of(effective({**parse_options(SMALL), "group_size": size})[0])
    assert len(timelines._kept) == 3


def test_a_radio_is_described_by_its_rates_and_a_long_timeline_refused() -> None:
    options = parse_options(SMALL | CASES["radio"])
    note, _ = exploration.view(exploration.Timelines(), options, None, brief=True)["describe"]
    assert "bits a slot" in note
    with pytest.raises(InputError, match="at most"):
        exploration.refuse_too_long(effective({"devices": 100, "deadline": 10**8})[0])


def test_an_option_of_the_training_without_effect_is_refused(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    assert answers.answer("training", SMALL).status == 200
    answer = answers.answer("training", {**SMALL, "labels_per_device": "3"})
    assert answer.status == 422
    assert b'"parameter":"labels_per_device"' in answer.content


def test_parts_of_the_chart_of_unequal_devices_come_from_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    timelines, options = exploration.Timelines(), parse_options(SMALL | CASES["unequal"])
    timeline = timelines.of(effective(options)[0])
    every = activity_table(timeline)
    first = timelines.table(timeline, Window(0, 30))
    monkeypatch.setattr(exploration, "activity_table", lambda *_: pytest.fail("the table was made again"))
    later = timelines.table(timeline, Window(30, 60))
    for found, (begin, end) in ((first, (0, 30)), (later, (30, 60))):
        assert np.array_equal(found, every[:, (every[2] < end) & (every[3] > begin)])
