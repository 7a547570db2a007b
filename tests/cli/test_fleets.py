"""Fleets on the command line: what is shown, and how mistakes are told."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]


def table(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_an_unequal_fleet_has_a_timeline(slotwise: Call) -> None:
    code, out, _ = slotwise(
        "timeline", "--compute-distribution", "uniform:1:9", "--uplink-loss", "0.3", "--json"
    )
    document = json.loads(out)
    assert code == 0
    assert any(entry["uplinks"] for entry in document["rounds"])
    again = slotwise("timeline", "--compute-distribution", "uniform:1:9", "--uplink-loss", "0.3", "--json")
    assert again == (0, out, "")
    other = slotwise(
        "timeline", "--compute-distribution", "uniform:1:9", "--uplink-loss", "0.3", "--json", "--seed", 1
    )
    assert other[1] != out


def test_a_fleet_does_not_depend_on_the_process_that_draws_it() -> None:
    fleet = "--compute-distribution lognormal:9:0.8 --uplink-loss 0.3 --jitter 0.5 --mean-present 40"
    command = [sys.executable, "-c", "import slotwise.cli; slotwise.cli.main()", "timeline", "--json"]
    command += [*fleet.split(), "--mean-away", "9", "--deadline", "300", "--schedule", "idfl", "--seed", "4"]
    said = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        said.add(done.stdout)
    assert len(said) == 1


def test_equal_devices_however_said_have_the_same_timeline(slotwise: Call) -> None:
    plain = slotwise("timeline", "--json")
    assert plain == slotwise("timeline", "--json", "--compute-distribution", "constant:2")


def test_a_file_says_how_many_devices_there_are(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "fleet.csv", "device,compute_slots\n1,2\n2,3\n3,5\n")
    code, out, _ = slotwise("timeline", "--fleet-file", path, "--json")
    assert code == 0
    assert json.loads(out)["scenario"]["devices"] == 3


@pytest.mark.parametrize("command", ["plan", "timeline", "train"])
@pytest.mark.parametrize("one", ["--compute-slots", "--samples-per-slot"])
def test_a_speed_of_all_devices_and_one_of_each_do_not_go_together(
    slotwise: Call, tmp_path: Path, command: str, one: str
) -> None:
    path = table(tmp_path / "fleet.csv", "device,compute_slots\n1,2\n2,3\n")
    more = ["--out", tmp_path / "run"] if command == "train" else []
    for own in (["--fleet-file", path], ["--compute-distribution", "uniform:2:3"]):
        code, _, err = slotwise(command, "--group-size", 1, one, 9, *own, *more)
        assert (code, err.count("\n")) == (2, 1)
        assert err == f"slotwise: {one} cannot be combined with {own[0]}\n"


@pytest.mark.parametrize("command", ["plan", "timeline", "train"])
def test_a_file_with_another_number_of_devices_than_is_said_is_refused(
    slotwise: Call, tmp_path: Path, command: str
) -> None:
    path = table(tmp_path / "fleet.csv", "device,compute_slots\n1,2\n2,3\n")
    more = ["--out", tmp_path / "run"] if command == "train" else []
    code, _, err = slotwise(command, "--group-size", 1, "--fleet-file", path, "--devices", 9, *more)
    assert (code, err) == (2, f"slotwise: {path}: 2 devices: must be 9\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("absences = [[2, -5, 10]]", "absences = [2, -5, 10]: must be such that leaves is a whole number"),
        ("absences = [[0, 5, 10]]", "absences = [0, 5, 10]: must be such that device is a whole number"),
        ("absences = [[2, 50, 10]]", "absences = [2, 50, 10]: must be such that returns is a whole number"),
        ("mean-present = 5", "mean-away is missing; it must be given together with mean-present"),
        ("devices = 4\ngroup-size = 10", "group-size = 10: must be from 1 to 4"),
        (
            "devices = 2\ngroup-size = 1\ndevice-compute-slots = [1, -3]",
            "device-compute-slots = -3 of device 2: must be a whole number of at least 1",
        ),
        (
            "devices = 2\ngroup-size = 1\ndevice-link-slots = [1, 2]\nuplink-slots = 3",
            "uplink-slots cannot be combined with device-link-slots",
        ),
    ],
)
def test_mistakes_in_a_file_of_options_name_the_file_and_the_option(
    slotwise: Call, tmp_path: Path, text: str, told: str
) -> None:
    path = table(tmp_path / "run.toml", text)
    code, _, err = slotwise("train", "--config", path, "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"slotwise: {path}: {told}")
    assert not (tmp_path / "run").exists()


def test_a_rate_of_the_link_and_link_slots_of_each_device_do_not_go_together(
    slotwise: Call, tmp_path: Path
) -> None:
    path = table(tmp_path / "fleet.csv", "device,compute_slots,link_slots\n1,2,9\n2,3,9\n")
    words = ["train", "--group-size", 1, "--fleet-file", path, "--out", tmp_path / "run"]
    code, _, err = slotwise(*words, "--bits", 8, "--bits-per-slot", 50_000)
    assert code == 2
    assert "--bits-per-slot cannot be combined with --fleet-file" in err
    code, _, err = slotwise(*words, "--uplink-slots", -1)
    assert (code, err) == (2, "slotwise: --uplink-slots -1: must be a whole number of at least 1\n")


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--deadline", 900_000_000, "--group-size", 10, "--uplink-loss", 0.1],
        ["timeline", "--rounds", 100_000_000, "--link-slots", 1_000_000],
        ["timeline", "--deadline", 900_000_000, "--link-slots", 1000, "--uplink-slots", 1],
    ],
)
def test_timelines_that_no_memory_holds_are_refused(slotwise: Call, words: list[object]) -> None:
    code, _, err = slotwise(*words)
    assert code == 2
    assert "uplinks, and" in err


@pytest.mark.parametrize("command", ["plan", "timeline", "train"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty: must have a header row"),
        ("device,compute_slots\n", "no devices"),
        ("device,compute_slots\n1,2\n2,slow\n", "row 3, column compute_slots: slow: must be a whole number"),
        ("device,compute_slots,link_slots\n1,2,0\n", "row 2, column link_slots: 0: must be a whole number"),
        ("device,compute_slots\n1,2\n1,3\n", "row 3, column device: 1: occurs twice"),
        ("device,compute_slots\n1,2\n3,3\n", "row 3, column device: 3: must be 1 to 2, each once, and 2 is"),
        ("device,link_slots\n1,2\n", "row 1, column compute_slots: missing"),
        ("device,compute_slots\n1,-2\n", "row 2, column compute_slots: -2: must be a whole number"),
        ("device,compute_slots,colour\n1,2,red\n", "row 1, column colour: unknown: allowed are device"),
    ],
)
def test_a_bad_file_is_one_line(slotwise: Call, tmp_path: Path, command: str, text: str, told: str) -> None:
    path = table(tmp_path / "fleet.csv", text)
    more = ["--out", tmp_path / "run"] if command == "train" else []
    code, out, err = slotwise(command, "--group-size", 1, "--fleet-file", path, *more)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"slotwise: {path}")
    assert told in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--uplink-loss", "1"], "--uplink-loss 1.0: must be a probability from 0 to below 1"),
        (["--uplink-loss", "-0.5"], "--uplink-loss -0.5: must be"),
        (["--uplink-loss", "nan"], "--uplink-loss nan: must be a probability from 0 to below 1"),
        (["--jitter", "1"], "--jitter 1.0: must be"),
        (["--compute-distribution", "constant:-3"], "--compute-distribution constant:-3: must be"),
        (["--uplink-slots", "0"], "--uplink-slots 0: must be"),
        (["--mean-present", "5"], "--mean-away is missing; it must be given together with --mean-present"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "timeline", "train"])
def test_a_bad_flag_is_one_line(
    slotwise: Call, tmp_path: Path, command: str, flags: list[str], told: str
) -> None:
    more = ["--out", tmp_path / "run"] if command == "train" else []
    code, out, err = slotwise(command, *flags, *more)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--bits", "1"], "--bits 1: must be a whole number from 2 to 32"),
        (
            ["--bits-per-slot", "9", "--link-slots", "2"],
            "--bits-per-slot cannot be combined with --link-slots",
        ),
        (["--aggregation", "fedasync", "--mixing", "2"], "--mixing 2.0: must be"),
        (["--aggregation", "fedbuff", "--server-rate", "0"], "--server-rate 0.0: must be"),
        (["--aggregation", "fedasync", "--discount-power", "-1"], "--discount-power -1.0: must be"),
    ],
)
def test_a_bad_aggregation_is_one_line(slotwise: Call, tmp_path: Path, flags: list[str], told: str) -> None:
    code, out, err = slotwise("train", *flags, "--out", tmp_path / "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert not (tmp_path / "run").exists()


def test_a_bad_fleet_in_a_toml_file_is_told_with_the_file(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "run.toml", "uplink-loss = 1.5\n")
    code, _, err = slotwise("train", "--config", path, "--out", tmp_path / "run")
    assert (code, err) == (
        2,
        f"slotwise: {path}: uplink-loss = 1.5: must be a probability from 0 to below 1\n",
    )


def test_a_lossy_unequal_run_is_trained_and_resumed_by_its_folder_alone(
    slotwise: Call, tmp_path: Path
) -> None:
    fleet = table(tmp_path / "fleet.csv", "device,compute_slots,link_slots\n1,2,1\n2,3,2\n3,9,1\n4,2,1\n")
    small = ["--samples-per-device", 20, "--local-steps", 1, "--batch-size", 8, "--channels", "2"]
    flags = ["--fleet-file", fleet, "--uplink-loss", 0.3, "--aggregation", "fedbuff", "--bits", 8]
    more = ["--group-size", 2, "--deadline", 60, "--quiet"]
    code, out, _ = slotwise("train", *small, *flags, *more, "--out", tmp_path / "run")
    assert code == 0
    assert out.startswith("finished after")
    document = json.loads((tmp_path / "run/run.json").read_text())["parameters"]
    assert document["device_compute_slots"] == [2, 3, 9, 2]
    assert document["aggregation"] == "fedbuff"
    assert slotwise("show", tmp_path / "run")[0] == 0


def test_a_plan_for_a_fleet_is_simulated(slotwise: Call) -> None:
    flags = ["--devices", 6, "--deadline", 200, "--compute-distribution", "two-classes:3:9:0.5"]
    code, out, _ = slotwise("plan", *flags, "--json")
    assert code == 0
    for row in json.loads(out):
        assert row["idfl"]["rounds"] >= row["async"]["rounds"] >= row["sync"]["rounds"]
        assert row["idfl"]["mean_staleness"] <= row["async"]["mean_staleness"]
    code, out, _ = slotwise("plan", *flags, "--uplink-loss", 0.2)
    assert code == 0
    assert "6 unequal devices" in out


def test_a_plan_for_equal_devices_is_the_paper_s_however_they_are_said(slotwise: Call) -> None:
    flags = ["plan", "--devices", 10, "--deadline", 500, "--json"]
    assert slotwise(*flags) == slotwise(*flags, "--compute-distribution", "constant:50")


def test_a_deadline_no_round_of_the_fleet_meets_is_refused(slotwise: Call) -> None:
    code, out, err = slotwise("plan", "--deadline", 3, "--compute-distribution", "uniform:5:9")
    assert (code, out) == (2, "")
    assert err.startswith("slotwise: --deadline 3: must be ")
    assert err.count("\n") == 1
