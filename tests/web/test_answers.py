"""The answers of the explorer, computed in this process; in the server another process computes them."""

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.runs import RunFolder
from slotwise.setting.planning import divisors
from slotwise.web import answers as module
from slotwise.web.answers import Answer, Answers, Sweeps, group_sizes
from slotwise.web.controls import effective, parse_options

SMALL = {"devices": "12", "group_size": "3", "compute_slots": "6", "deadline": "200"}
PART = {"from": "10", "to": "60", "first_device": "2", "last_device": "4"}
POWERS = {"power_computing": "2", "power_sending": "1", "power_receiving": "0.5"}
RUN = "mnist-async-S50-T50000-seed1"
GRID = Path(__file__).parents[2] / "docs/results/paper/runs"


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    return Answers(tmp_path)


def value(answer: Answer, status: int = 200) -> Any:
    assert (answer.status, answer.media_type) == (status, "application/json")
    return json.loads(answer.content)


def test_a_view_has_all_schedules_a_part_of_the_chart_and_joules(answers: Answers) -> None:
    view = value(answers.answer("view", SMALL))
    expected = effective(parse_options(SMALL))[0].simulate()
    assert view["schedules"][view["chosen"]]["rounds"] == expected.rounds
    assert set(view["schedules"]) == {"sync", "async", "idfl"}
    assert "part" not in view
    brief = value(answers.answer("view", {**SMALL, "brief": "1"}))
    assert set(brief["schedules"]) == {view["chosen"]}
    view = value(answers.answer("view", SMALL | PART | POWERS))
    assert view["part"]["slots"] == [10, 60]
    assert set(view["part"]["bars"]["device"]) == {2, 3, 4}
    assert view["schedules"]["async"]["joules"] > 0
    part = value(answers.answer("part", SMALL | PART))
    assert {**part, "frame": view["gantt"]} == {**view["part"], "frame": part["frame"]}
    unequal = {"devices": "12", "group_size": "3", "compute_distribution": "two-classes:3:50:0.5"}
    view = value(answers.answer("view", {**unequal, "deadline": "20", "schedule": "async"}))
    assert view["schedules"]["sync"] is None  # it waits for slow devices
    assert view["schedules"]["async"]["rounds"] > 0


RADIO = {**SMALL, "radio_link": "rate-adaptive", "radio_radius_m": "200"}


def test_access_schemes_have_the_figures_of_their_timelines_and_one_window(answers: Answers) -> None:
    found = value(answers.answer("access", RADIO | {"access": "ofdma", "ofdma_devices": "3"}))
    assert (found["chosen"], [*found["schemes"]]) == ("ofdma", ["tdma", "ofdma", "noma", "over-the-air"])
    first, end = found["slots"]
    for name, row in found["schemes"].items():
        own = {"ofdma_devices": "3"} if name == "ofdma" else {}
        timeline = effective(parse_options(RADIO | {"access": name} | own))[0].simulate()
        assert row["rounds"] == timeline.rounds
        assert row["lost"] == len(timeline.lost)
        assert row["uplink_slots"] == np.mean(timeline.end - timeline.start)
        shown = (timeline.start < end) & (timeline.end > first)
        assert row["channel"]["device"][: shown.sum()] == timeline.device[shown].tolist()
    assert found["schemes"]["tdma"]["channel"]["lanes"] == 1
    assert found["schemes"]["ofdma"]["channel"]["lanes"] == 3


def test_there_are_no_access_schemes_without_a_rate_and_none_for_a_scheme_that_does_not_fit(
    answers: Answers,
) -> None:
    assert value(answers.answer("access", SMALL)) is None
    assert value(answers.answer("access", {**SMALL, "radio_link": "fixed-rate"})) is None
    windows = RADIO | {"window_period": "50", "window_length": "40"}
    schemes = value(answers.answer("access", windows))["schemes"]
    assert schemes["tdma"]["rounds"] > 0
    assert schemes["noma"] is None


def test_a_scheme_in_which_no_update_arrives_has_figures(answers: Answers) -> None:
    unheard = RADIO | {"access": "over-the-air", "air_snr_db": "100", "retransmission": "erasure"}
    row = value(answers.answer("access", unheard))["schemes"]["over-the-air"]
    assert row["lost"] > row["rounds"] > 0
    assert row["uplink_slots"] == 0


@pytest.mark.parametrize("access", ["ofdma", "noma", "over-the-air"])
def test_the_map_of_a_cell_does_not_depend_on_the_access_scheme(answers: Answers, access: str) -> None:
    cell = value(answers.answer("cell", RADIO | {"access": access}))
    assert cell["snr_db"] == value(answers.answer("cell", RADIO))["snr_db"]


def test_runs_their_timelines_and_curves_are_answered(tmp_path: Path) -> None:
    shutil.copytree(GRID / RUN, tmp_path / "run")
    config = RunFolder(tmp_path / "run").parameters()
    part = value(Answers(tmp_path).answer("part", {**PART, "run": "run"}))
    assert part["frame"]["last"] == config.simulate().last_slot
    answers = Answers(tmp_path)
    assert [run["run"] for run in value(answers.answer("runs", {}))["runs"]] == ["run"]
    points = RunFolder(tmp_path / "run").points()
    (line,) = value(answers.answer("curves", {"runs": ["run"]}))["lines"]
    assert line["places"] == [point.slot for point in points]
    assert line["mean"] == pytest.approx([point.loss for point in points])
    (line,) = value(answers.answer("curves", {"runs": ["run"], "across": "joules", **POWERS}))["lines"]
    assert len(line["places"]) == len(points)


def test_group_sizes_are_answered_in_pieces_and_kept(answers: Answers) -> None:
    begun = value(answers.answer("sizes", SMALL))
    for sizes in begun["missing"]:
        assert value(answers.answer("rows", {"options": SMALL, "sizes": sizes}))
    again = value(answers.answer("sizes", SMALL))
    assert again["missing"] == []
    assert {row["group_size"] for row in again["rows"]} == set(range(1, 13))


def test_uplinks_are_downloaded_as_a_table(answers: Answers) -> None:
    answer = answers.answer("download", {**SMALL, "name": "uplinks.csv"})
    assert (answer.status, answer.media_type) == (200, "text/csv")
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    timeline = effective(parse_options(SMALL))[0].simulate()
    assert [int(row["device"]) for row in rows] == timeline.device.tolist()


@pytest.mark.parametrize("window", [{}, {"from": "0", "to": "80"}], ids=["usual", "window"])
@pytest.mark.parametrize(("name", "begins"), [("timeline.svg", b"<?xml"), ("timeline.png", b"\x89PNG")])
def test_pictures_are_downloaded(answers: Answers, name: str, begins: bytes, window: dict[str, str]) -> None:
    answer = answers.answer("download", {**SMALL, **window, "name": name})
    assert (answer.status, answer.media_type) == (200, module.PICTURES[name])
    assert answer.content.startswith(begins)


def test_the_picture_of_a_run_is_downloaded(tmp_path: Path) -> None:
    shutil.copytree(GRID / RUN, tmp_path / "run")
    given = {"name": "timeline.svg", "run": "run", "from": "0", "to": "100"}
    assert Answers(tmp_path).answer("download", given).content.startswith(b"<?xml")


def test_without_matplotlib_a_picture_is_refused(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = value(answers.answer("download", {**SMALL, "name": "timeline.svg"}), 422)
    assert "matplotlib is not installed" in refused["message"]


@pytest.mark.parametrize(
    ("call", "given", "parameter"),
    [
        ("view", {"devices": "-1"}, "devices"),
        ("view", {"power_computing": "1"}, "power_sending"),
        ("view", {"from": "1"}, "to"),
        ("part", {**PART, "to": "1.5"}, "to"),
        ("part", {**PART, "to": "²"}, "to"),
        ("part", {**PART, "last_device": "9" * 13}, "last_device"),
        ("part", {**PART, "run": "../elsewhere"}, "run"),
        ("download", {**SMALL, "name": "timeline.svg", "from": "40", "to": "40"}, "to"),
        ("curves", {"runs": [], "across": "value"}, "across"),
        ("curves", {"runs": [], "across": "joules"}, "across"),
        ("curves", {"runs": [], "up": "seconds"}, "up"),
        ("curves", {"runs": ["a"] * 401}, "run"),
        ("training", {**SMALL, "learning_rate": "fast"}, "learning_rate"),
    ],
)
def test_a_wrong_request_is_refused_by_parameter(
    answers: Answers, call: str, given: dict[str, Any], parameter: str
) -> None:
    refused = value(answers.answer(call, given), 422)
    assert refused["parameter"] == parameter
    assert refused["requirement"] in refused["message"]


def test_a_training_is_named_and_planned_and_ready_is_answered_with_nothing(answers: Answers) -> None:
    plan = value(answers.answer("training", {**SMALL, "seed": "7"}))
    rounds = effective({**parse_options(SMALL)})[0].simulate().rounds
    assert plan["name"].endswith("-S3-T200-seed7")
    assert plan["planned"][0] == [0, 0]
    assert plan["planned"][-1][1] == rounds
    assert plan["options"]["seed"] == 7
    assert value(answers.answer("ready", {})) is None
    refused = value(answers.answer("view", {"nothing": "1"}), 422)
    assert refused["parameter"] is None
    assert "nothing" in refused["message"]


def test_the_option_that_was_given_is_blamed_and_not_the_deadline(answers: Answers) -> None:
    large = {"radio_link": "rate-adaptive", "radio_radius_m": "5000"}
    refused = value(answers.answer("view", large), 422)
    assert refused["parameter"] == "radio_radius_m"
    assert "smaller" in refused["requirement"]
    assert value(answers.answer("training", large), 422)["parameter"] == "radio_radius_m"
    refused = value(answers.answer("view", {"compute_slots": "6000"}), 422)
    assert refused["parameter"] == "compute_slots"
    assert "6011" in refused["requirement"]
    both = value(answers.answer("view", {"compute_slots": "6000", "deadline": "5500"}), 422)
    assert both["parameter"] == "deadline"
    fixed = value(answers.answer("view", {"radio_link": "fixed-rate"}), 422)
    assert fixed["parameter"] == "radio_link"
    assert "Link slots" in fixed["message"]  # as the page names it


def test_the_map_of_a_cell_has_distances_signal_and_uplinks(answers: Answers) -> None:
    given = {**SMALL, "radio_link": "fixed-rate", "link_slots": "5"}
    config = effective(parse_options(given))[0]
    cell, timeline = value(answers.answer("cell", given)), config.simulate()
    assert cell["distance_m"] == pytest.approx(config.link.channel.cell(12, 0).distance_m, abs=0.1)
    assert sorted(cell["distance_m"]) == [cell["distance_m"][i] for i in np.argsort(cell["snr_db"])[::-1]]
    assert (sum(cell["arrived"]), sum(cell["lost"])) == timeline.totals()[1:3]
    assert set(cell["mean_slots"]) <= {5.0, None}
    assert value(answers.answer("cell", SMALL)) is None


def test_the_length_of_a_slot_is_told_where_it_is_known(answers: Answers) -> None:
    def seconds(**given: str) -> Any:
        return value(answers.answer("view", {**SMALL, **given}))["slot_seconds"]

    assert seconds() is None
    assert seconds(**POWERS) is None
    assert seconds(**POWERS, slot_seconds="0.01") == 0.01
    assert seconds(radio_link="rate-adaptive", radio_slot_ms="250") == 0.25


EQUAL: dict[str, Any] = {"devices": 12, "group_size": 3, "compute_slots": 6, "deadline": 200}
UNEQUAL: dict[str, Any] = {"devices": 12, "group_size": 3, "compute_distribution": "two-classes:3:50:0.5"}


def test_of_equal_devices_sizes_are_planned_and_agree_with_the_simulation() -> None:
    sizes = group_sizes(12, 5, equal=True)
    assert sizes[:7] == [5, 1, 2, 3, 4, 6, 12]
    assert sorted(sizes) == list(range(1, 13))
    rows = Sweeps().rows(EQUAL, [2, 3, 12])
    assert [row["group_size"] for row in rows] == [2, 3, 12]
    for row in rows:
        for schedule in ("sync", "async", "idfl"):
            case = {**EQUAL, "group_size": row["group_size"], "schedule": schedule}
            timeline = effective(case)[0].simulate()
            assert row[schedule] == {"rounds": timeline.rounds, "max_staleness": timeline.max_staleness()}
    short = {**EQUAL, "deadline": 10}
    assert [row["group_size"] for row in Sweeps().rows(short, [1, 12])] == [1]
    assert Sweeps().rows({**EQUAL, "deadline": 9}, [6, 12]) == []
    (row,) = Sweeps().rows({**UNEQUAL, "deadline": 20, "schedule": "async"}, [3])
    assert "sync" not in row  # it waits for slow devices
    assert row["async"]["rounds"] > 0


@pytest.mark.parametrize(("devices", "equal"), [(1000, True), (1000, False), (100, False)])
def test_of_many_or_unequal_devices_sizes_are_sampled(devices: int, equal: bool) -> None:
    sizes = group_sizes(devices, 7, equal=equal)
    assert {7, 1, devices, *divisors(devices)} <= set(sizes)
    assert len(sizes) == len(set(sizes)) < devices / 2
    assert all(1 <= size <= devices for size in sizes)


@pytest.mark.parametrize("options", [EQUAL, {**UNEQUAL, "deadline": 200}], ids=["equal", "unequal"])
def test_a_wrong_size_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as raised:
        Sweeps().rows(options, [13])
    assert raised.value.parameter != "deadline"


def test_only_the_last_few_sweeps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_SWEEPS", 2)
    sweeps = Sweeps()
    cases = [parse_options({"devices": str(devices), "group_size": "1"}) for devices in (3, 4, 5)]
    for case in cases:
        sweeps.rows(case, [1])
    assert [len(sweeps.begin(case)["rows"]) for case in reversed(cases)] == [1, 1, 0]
