"""Fleets on the command line: what is shown, and how mistakes are told."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import slotwise as sw

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


def test_equal_devices_however_given_have_the_same_timeline_and_plan(slotwise: Call) -> None:
    plain = slotwise("timeline", "--json")
    assert plain == slotwise("timeline", "--json", "--compute-distribution", "constant:2")
    flags = ["plan", "--devices", 10, "--deadline", 500, "--json"]
    assert slotwise(*flags) == slotwise(*flags, "--compute-distribution", "constant:50")


def test_a_file_says_how_many_devices_there_are(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "fleet.csv", "device,compute_slots\n1,2\n2,3\n3,5\n")
    code, out, _ = slotwise("timeline", "--fleet-file", path, "--json")
    assert code == 0
    assert json.loads(out)["scenario"]["devices"] == 3


@pytest.mark.parametrize("command", ["plan", "timeline", "train"])
def test_a_file_with_another_number_of_devices_than_is_said_is_refused(
    slotwise: Call, tmp_path: Path, command: str
) -> None:
    path = table(tmp_path / "fleet.csv", "device,compute_slots\n1,2\n2,3\n")
    more = ["--out", tmp_path / "run"] if command == "train" else []
    code, _, err = slotwise(command, "--group-size", 1, "--fleet-file", path, "--devices", 9, *more)
    assert (code, err) == (2, f"slotwise: {path}: 2 devices: must be 9\n")


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


def test_windows_of_a_file_are_those_of_a_list(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "passes.csv", "device,opens,closes\n1,0,9\n1,20,40\n2,5,50\n")
    code, out, _ = slotwise("timeline", "--devices", 4, "--window-file", path, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["fleet"]["windows"]["windows"] == [[1, 0, 9], [1, 20, 40], [2, 5, 50]]
    toml = table(tmp_path / "run.toml", "devices = 4\nwindows = [[1, 0, 9], [1, 20, 40], [2, 5, 50]]\n")
    settings = sw.RunConfig.from_toml(toml), sw.RunConfig.from_options({"devices": 4, "window_file": path})
    assert settings[0] == settings[1]


def test_owned_slots_of_a_file_are_those_of_a_list(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "frame.csv", "slot,device\n3,1\n1,2\n")
    code, out, _ = slotwise(
        *("timeline", "--devices", 2, "--group-size", 1, "--frame-slots", 4, "--frame-file", path, "--json")
    )
    document = json.loads(out)
    assert code == 0
    assert document["fleet"]["windows"] == {"frame_slots": 4, "owned_slots": [[1, 2], [3, 1]]}
    text = "devices = 2\ngroup-size = 1\nframe-slots = 4\nowned-slots = [[3, 1], [1, 2]]\n"
    settings = (
        sw.RunConfig.from_toml(table(tmp_path / "run.toml", text)),
        sw.RunConfig.from_options({"devices": 2, "group_size": 1, "frame_slots": 4, "frame_file": path}),
    )
    assert settings[0] == settings[1]


def test_a_run_with_owned_slots_is_planned_recommended_and_trained(slotwise: Call, tmp_path: Path) -> None:
    channel = ["--devices", 7, "--compute-slots", 3, "--frame-slots", 16, "--frame-offset", 9]
    channel += ["--deadline", 300]
    assert slotwise("plan", *channel)[0] == 0
    small = ["--samples-per-device", 8, "--local-steps", 1, "--batch-size", 4, "--network", "logistic"]
    pilot = 'samples-per-device = 8\nlocal-steps = 1\nbatch-size = 4\nnetwork = "logistic"\n'
    pilot += "devices = 7\ncompute-slots = 3\nframe-slots = 16\nframe-offset = 9\ndeadline = 300\n"
    search = ["--group-sizes", "1,7", "--seeds", "1,", "--quiet", "--out", tmp_path / "pilots"]
    code, _, err = slotwise("recommend", "--config", table(tmp_path / "pilot.toml", pilot), *search)
    assert code == 0, err
    for name in ("run", "again"):
        assert slotwise("train", *channel, "--group-size", 2, *small, "--out", tmp_path / name)[0] == 0
    saved = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("run", "again")]
    assert saved[0]["model_sha256"] == saved[1]["model_sha256"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            "--devices 100 --frame-slots 50",
            "--frame-slots 50: must be at least 100: every device owns a slot",
        ),
        ("--frame-offset 3", "--frame-offset"),
        ("--frame-slots 200 --window-period 30 --window-length 3", "--frame-slots"),
        ("--frame-slots 4 --frame-file nowhere.csv", "cannot read nowhere.csv"),
        (
            "--window-period 30 --window-length 2 --uplink-slots 3",
            "--window-length 2: must be at least 3, the slots of an uplink of device 1",
        ),
        ("--window-period 30 --window-length 30", "--window-length 30: must be below --window-period, 30"),
        (
            "--window-period 30 --window-length 9 --battery-joules 9 --computing-joules 1",
            "--battery-joules cannot be combined with --window-period; energy and windows are not",
        ),
        ("--window-period 30", "--window-length"),
        ("--window-stagger 3", "--window-stagger"),
    ],
)
def test_windows_that_cannot_be_are_refused_in_one_line(slotwise: Call, flags: str, said: str) -> None:
    code, out, err = slotwise("timeline", *flags.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_row_of_a_file_of_windows_that_is_wrong_is_named(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "passes.csv", "device,opens,closes\n1,9,9\n")
    code, _, err = slotwise("timeline", "--window-file", path)
    assert (code, err) == (2, f"slotwise: {path}, row 2, column closes: 9: must be after opens, 9\n")


def test_a_row_of_a_frame_that_is_wrong_is_named(slotwise: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "frame.csv", "slot,device\n3,1\n9,2\n")
    code, _, err = slotwise("timeline", "--frame-file", path, "--frame-slots", 7)
    refused = f"slotwise: {path}, row 3, column slot: 9: must be below 7, the slots of a frame\n"
    assert (code, err) == (2, refused)


def test_a_run_with_windows_is_planned_and_trained_twice_to_the_same_bits(
    slotwise: Call, tmp_path: Path
) -> None:
    flags = ["--devices", 4, "--group-size", 2, "--compute-slots", 3, "--deadline", 90]
    flags += ["--window-period", 12, "--window-length", 5, "--window-stagger", 4]
    assert slotwise("plan", *flags[:2], *flags[4:])[0] == 0
    small = ["--samples-per-device", 8, "--local-steps", 1, "--batch-size", 4, "--network", "logistic"]
    for name in ("run", "again"):
        assert slotwise("train", *flags, *small, "--out", tmp_path / name)[0] == 0
    saved = [(tmp_path / name / "run.json").read_text() for name in ("run", "again")]
    assert json.loads(saved[0])["model_sha256"] == json.loads(saved[1])["model_sha256"]
    assert '"window_stagger": 4' in saved[0]
