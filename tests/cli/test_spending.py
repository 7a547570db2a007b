"""Slots and joules on the command line: the same numbers in every command that shows them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from slotwise import Scenario, simulate
from slotwise.learning import Point
from slotwise.runs import RunConfig, RunFolder
from slotwise.schedule.costs import usage

Cli = Callable[..., tuple[int, str, str]]

WATTS = ["--power-computing", 4, "--power-sending", 2, "--power-receiving", 1, "--power-idle", 0.25]
WATTS += ["--slot-seconds", 0.5]
SMALL = ["--devices", 6, "--compute-slots", 2, "--deadline", 14, "--group-size", 2]
TOTAL = {"slots": 14, "computing": 24, "sending": 8, "receiving": 8, "idle": 44}  # async, counted by hand


def run_of(path: Path, rounds: int = 4) -> Path:
    """The worked example as a run of so many rounds, without the training."""
    parameters = RunConfig().with_options(
        devices=6, group_size=2, compute_slots=2, deadline=14, schedule="async"
    )
    folder = RunFolder.create(path, parameters)
    ends = [0, *parameters.simulate().broadcast_end.tolist()]
    folder.write_points([Point(ends[k], k, 2.0, 0.1, 0) for k in range(rounds + 1)])
    folder.write_description(parameters, "finished" if rounds == 4 else "interrupted")
    return path


def test_a_plan_has_slots_if_asked_and_with_powers_joules(slotwise: Cli) -> None:
    _, out, _ = slotwise("plan", *SMALL, "--usage", "--json")
    (row,) = json.loads(out)
    assert list(row["usage"]) == ["sync", "async", "idfl"]
    assert row["usage"]["async"].items() >= TOTAL.items()
    assert "joules" not in row["usage"]["async"]
    _, out, _ = slotwise("plan", *SMALL, *WATTS, "--json")
    assert json.loads(out)[0]["usage"]["async"]["joules"] == 65.5
    _, table, _ = slotwise("plan", *SMALL, *WATTS)
    row = next(line.split() for line in table.splitlines() if " async  " in line)
    assert row == ["2", "async", "28.6%", "9.5%", "9.5%", "52.4%", "1–2", "(1.333)", "65.5"]
    _, table, _ = slotwise("plan", *SMALL)
    rows = [line.split() for line in table.splitlines() if " idfl " in line]
    assert [row[:2] for row in rows if "%" in row[2]] == [["2", "idfl"]]
    assert "joules" not in table
    assert "usage" not in json.loads(slotwise("plan", *SMALL, "--json")[1])[0]


def test_a_plan_of_a_fleet_has_the_slots_of_its_devices(slotwise: Cli) -> None:
    fleet = ["--uplink-loss", 0.3, "--mean-present", 50, "--mean-away", 9]
    _, out, _ = slotwise(
        "plan", "--devices", 6, "--deadline", 300, "--group-size", 2, *fleet, *WATTS, "--json"
    )
    (row,) = json.loads(out)
    for name in ("sync", "async", "idfl"):
        spent = row["usage"][name]
        watt_slots = 4 * spent["computing"] + 2 * spent["sending"] + spent["receiving"] + spent["idle"] / 4
        assert spent["joules"] == watt_slots / 2
        assert row[name]["lost"] + row[name]["updates"] >= spent["sending"] > 0  # some leave while they send


def test_a_schedule_without_a_round_has_nothing_to_count(slotwise: Cli) -> None:
    sizes = ["--group-size", 1, "--group-size", 6]
    flags = ["plan", "--devices", 6, "--compute-slots", 2, "--deadline", 5, *sizes, "--usage"]
    usage = json.loads(slotwise(*flags, "--json")[1])[1]["usage"]
    assert usage == {"sync": None, "async": None, "idfl": None}
    (row,) = (line.split() for line in slotwise(*flags)[1].splitlines() if " 6  async" in line)
    assert row[2:] == ["–"] * 5


def test_too_many_uplinks_are_not_counted_unasked(slotwise: Cli) -> None:
    code, out, _ = slotwise("plan", "--deadline", 900_000_000, "--group-size", 10)
    assert code == 0
    assert "add --usage" in out
    assert "computing" not in out
    code, out, err = slotwise("plan", "--deadline", 900_000_000, "--group-size", 10, "--usage")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--deadline" in err


def test_a_timeline_has_what_its_devices_spend_and_every_device_if_asked(slotwise: Cli) -> None:
    _, out, _ = slotwise("timeline", "--rounds", 4, *WATTS)
    said = " ".join(out.split())
    assert "computing 28.6%, sending 9.5%, receiving 9.5%, idle 52.4%" in said
    assert said.endswith("air time of each: 1–2 (1.333) slots; 65.5 joules in all")
    _, out, _ = slotwise("timeline", "--rounds", 4, "--per-device")
    rows = [line.split() for line in out.splitlines()]
    assert ["2", "4", "2", "2", "6", "0"] in rows
    assert ["all", "24", "8", "8", "44", "0"] in rows
    document = json.loads(slotwise("timeline", "--rounds", 4, "--per-device", "--json")[1])
    assert document["usage"].items() >= TOTAL.items()
    assert [row["sending"] for row in document["usage"]["devices"]] == [2, 2, 1, 1, 1, 1]
    assert "usage" not in json.loads(slotwise("timeline", "--json")[1])
    assert "devices" not in json.loads(slotwise("timeline", *WATTS, "--json")[1])["usage"]


def test_runs_show_what_their_devices_have_spent(slotwise: Cli, tmp_path: Path) -> None:
    _, out, _ = slotwise("show", run_of(tmp_path / "run"), *WATTS)
    rows = [line.split() for line in out.splitlines()]
    assert ["share", "of", "their", "time", "28.6%", "9.5%", "9.5%", "52.4%"] in rows
    assert ["all", "together", "24", "8", "8", "44", "0", "65.5"] in rows
    assert ["a", "device:", "least", "4", "1", "1", "6", "0", "10.5"] in rows
    assert ["most", "4", "2", "2", "8", "0", "11.75"] in rows
    runs = [run_of(tmp_path / "one"), run_of(tmp_path / "two", rounds=2)]
    RunFolder.create(tmp_path / "fresh", RunConfig())
    _, out, _ = slotwise("show", *runs, tmp_path / "fresh")
    rows = [line.split() for line in out.splitlines()]
    assert ["one", "28.6%", "9.5%", "9.5%", "52.4%", "1–2", "(1.333)"] in rows
    assert ["fresh", "–", "–", "–", "–", "–"] in rows


def test_an_interrupted_run_has_spent_what_it_has_played(slotwise: Cli, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", rounds=2)
    _, out, _ = slotwise("show", run, "--json")
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    expected = usage(simulate(scenario, "async", rounds=2)).total._asdict()
    assert json.loads(out)[0]["usage"].items() >= expected.items()


def test_a_training_ends_with_what_its_devices_have_spent(slotwise: Cli, tmp_path: Path) -> None:
    tiny = "--samples-per-device 8 --local-steps 1 --batch-size 4 --channels 2 --hidden 4 --schedule async"
    flags = [*SMALL, *tiny.split(), "--quiet", "--out", tmp_path / "run"]
    code, out, _ = slotwise("train", *flags, *WATTS)
    assert code == 0
    assert out.splitlines()[1].endswith("air time of each: 1–2 (1.333) slots; 65.5 joules in all")


def test_every_device_of_every_run_goes_into_a_csv_file(slotwise: Cli, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    code, _, err = slotwise("show", run, "--usage-csv", tmp_path / "usage.csv", *WATTS)
    assert (code, err) == (0, f"wrote {tmp_path / 'usage.csv'}\n")
    with (tmp_path / "usage.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["device"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [int(row["idle"]) for row in rows] == [6, 6, 8, 8, 8, 8]
    assert sum(float(row["joules"]) for row in rows) == 65.5
    RunFolder.create(tmp_path / "fresh", RunConfig())
    assert slotwise("show", tmp_path / "fresh", "--usage-csv", tmp_path / "usage.csv")[0] == 0
    assert (tmp_path / "usage.csv").read_text() == "run,device,computing,sending,receiving,idle,away\n"
    code, out, err = slotwise("show", run, "--usage-csv", tmp_path / "no" / "usage.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "there is no folder" in err
