"""Mistakes on the command line of live runs; the runs themselves are in tests/live."""

from pathlib import Path

import pytest
import typer

from slotwise.cli.serve import _report
from slotwise.cli.serve_options import listening_address, new_parameters, new_place
from slotwise.live.plan import scheduler_of
from slotwise.live.run import LiveOutcome, ServerOptions, new_live_folder
from slotwise.live.state import LiveState
from slotwise.runs import RunConfig, RunFolder

BAD = {
    "no folder": (["serve"], "--out missing"),
    "broker": (["serve", "--out", "OUT", "--broker", "host"], "--broker host: must be mqtt://"),
    "unreachable": (["serve", "--out", "OUT", "--broker", "mqtt://127.0.0.1:1"], "cannot reach a broker"),
    "name": (["serve", "--out", "OUT", "--name", "a/b"], "--name a/b"),
    "slot": (["serve", "--out", "OUT", "--slot-ms", "0"], "--slot-ms 0.0"),
    "both clocks": (["serve", "--out", "OUT", "--slot-ms", "5", "--as-fast-as-possible"], "left out"),
    "listen": (["serve", "--out", "OUT", "--listen", "nowhere"], "--listen nowhere"),
    "listen without brackets": (["serve", "--out", "OUT", "--listen", "::1:1"], "--listen ::1:1: must be"),
    "listen beside a broker": (
        ["serve", "--out", "OUT", "--listen", "127.0.0.1:1883", "--broker", "mqtt://127.0.0.1:1"],
        "--listen 127.0.0.1:1883: must be left out",
    ),
    "go on with two": (["serve", "--out", "OUT", "--go-on", "--resume", "run"], "--resume run: must be left"),
    "certificates without TLS": (
        ["serve", "--out", "OUT", "--ca", "ca.crt", "--broker", "mqtt://127.0.0.1:1"],
        "--ca ca.crt: must be left out with mqtt://127.0.0.1:1, or with mqtts:// in its place",
    ),
    "clip": (["serve", "--out", "OUT", "--clip-norm", "-1"], "--clip-norm -1.0"),
    "patience": (["serve", "--out", "OUT", "--patience", "0"], "--patience 0.0"),
    "like": (["serve", "--out", "OUT", "--like", "nowhere"], "nowhere: not a run folder"),
    "step size": (["serve", "--out", "OUT", "--learning-rate", "-1"], "--learning-rate -1.0: must be"),
    "channels": (["serve", "--out", "OUT", "--channels", "a"], "--channels a: must be whole numbers"),
    "user alone": (
        ["serve", "--out", "OUT", "--user", "u"],
        "--user u: must be given together",
    ),
    "resume": (["serve", "--resume", "nowhere"], "nowhere: not a run folder"),
    "device": (["device", "--id", "0"], "--id 0"),
    "no broker": (
        ["device", "--id", "1", "--broker", "mqtt://127.0.0.1:1", "--patience", "0"],
        "cannot reach a broker",
    ),
    "no function": (
        ["device", "--id", "1", "--task", "nosuch", "--broker", "mqtt://127.0.0.1:1"],
        "--task nosuch: must be module:function",
    ),
    "no module": (["fleet", "--task", "nosuch:make"], "there is no module nosuch"),
    "fleet": (["fleet", "--devices", "0"], "--devices 0"),
    "credentials": (["device", "--id", "1", "--credentials", "nowhere"], "--credentials nowhere"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_one_line_and_leave_nothing(slotwise, tmp_path, case):
    arguments, line = BAD[case]
    out = tmp_path / "out"
    code, _, errors = slotwise(*(out if word == "OUT" else word for word in arguments))
    assert code == 2
    assert line in errors.splitlines()[-1]
    assert not out.exists()


def test_made_up_faults_are_for_simulations(slotwise, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("loss = 0.1\n")
    code, _, errors = slotwise("serve", "--out", tmp_path / "out", "--config", config)
    assert code == 2
    assert errors.startswith(f"slotwise: {config}: loss = 0.1: must be left out: faults are made up in")


def test_a_service_that_restarts_gives_the_same_options_again(slotwise, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("devices = 3\ngroup-size = 1\n")
    parameters = RunConfig.from_options({"devices": 3, "group_size": 1})
    RunFolder.create(tmp_path / "out", parameters).write_description(parameters, "finished", live_run="x")
    code, _, errors = slotwise("serve", "--out", tmp_path / "out", "--go-on", "--config", config)
    assert code == 0
    assert "finished already" in errors


def test_a_service_that_was_killed_just_after_it_had_made_its_folder_goes_on(slotwise, tmp_path):
    new_live_folder(
        tmp_path / "out", RunConfig.from_options({"devices": 3, "group_size": 1}), ServerOptions()
    )
    where = ["--broker", "mqtt://127.0.0.1:1"]
    code, _, errors = slotwise("serve", "--out", tmp_path / "out", "--go-on", *where)
    assert code == 2
    assert "cannot reach a broker" in errors.splitlines()[-1]  # nothing else is wrong


def test_a_service_that_was_killed_while_it_made_its_folder_begins_anew(tmp_path):
    (tmp_path / ".0123456789abcdef.tmp").touch()
    assert new_place(tmp_path) == tmp_path


def test_a_folder_that_may_not_be_looked_at_is_refused(slotwise, tmp_path, monkeypatch):
    def forbidden(path, **how):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", forbidden)  # root may look at everything
    code, _, errors = slotwise("serve", "--devices", 3, "--group-size", 1, "--out", tmp_path / "a" / "b")
    assert code == 2
    assert errors.endswith("must be a folder that can be written (Permission denied)\n")


@pytest.mark.parametrize("command", [("serve", "--out", "OUT"), ("device", "--id", "1")])
def test_a_channel_that_is_not_that_of_the_credentials_is_refused(slotwise, tmp_path, command):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtt://127.0.0.1:1"\nname = "house"\n')
    out = tmp_path / "out"
    words = [out if word == "OUT" else word for word in command]
    code, _, errors = slotwise(*words, "--credentials", file, "--name", "garden")
    assert code == 2
    assert "--name garden: must be house, the channel of these credentials" in errors
    assert not out.exists()


@pytest.mark.parametrize("proof", ["--passwords", "--certificates"])
def test_credentials_of_another_client_are_refused(slotwise, tmp_path, proof):
    fleet, out = tmp_path / "fleet", tmp_path / "out"
    slotwise("enroll", fleet, "--devices", 2, "--host", "127.0.0.1", "--port", 1, proof)
    for name in ("server", "device-1"):  # whose they are does not depend on the names of files
        if proof == "--certificates":
            (fleet / f"{name}.crt").rename(fleet / f"of-{name}.crt")
        text = (fleet / f"{name}.toml").read_text().replace(f"{name}.crt", f"of-{name}.crt")
        (fleet / f"{name}.toml").write_text(text)
    wrong = {
        "these credentials are those of device-1, and this is device-2": ("device", "--id", 2, "device-1"),
        "these credentials are those of server, and this is device-1": ("device", "--id", 1, "server"),
        "these credentials are those of device-1, and this is server": ("serve", "--out", out, "device-1"),
    }
    for line, (*command, whose) in wrong.items():
        code, _, errors = slotwise(*command, "--credentials", fleet / f"{whose}.toml")
        assert (code, errors) == (2, f"slotwise: {line}\n")
    code, _, errors = slotwise("serve", "--out", out, "--credentials", fleet / "server.toml")
    assert "cannot reach a broker" in errors
    assert not out.exists()


def test_credentials_for_tls_are_not_used_without(slotwise, tmp_path):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtts://127.0.0.1:1"\nuser = "device-1"\npassword = "p"\n')
    code, _, errors = slotwise("device", "--id", 1, "--credentials", file, "--broker", "mqtt://127.0.0.1:1")
    assert code == 2
    assert "these credentials are for TLS only" in errors


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:1883", ("127.0.0.1", 1883)), ("[::1]:7", ("::1", 7)), ("my-host:7", ("my-host", 7))],
)
def test_where_the_embedded_broker_listens(listen, address):
    assert listening_address(listen) == address


def ended(status, trouble=None):
    parameters = RunConfig.from_options({"devices": 3, "group_size": 1})
    return LiveOutcome(status, LiveState(scheduler_of(parameters)), None, trouble)


@pytest.mark.parametrize(("paced", "hint"), [(False, "was wrong\n"), (True, "(--slot-ms)\n")])
def test_that_nobody_is_left_is_told_with_what_may_have_been_the_reason(capsys, tmp_path, paced, hint):
    with pytest.raises(typer.Exit):
        _report(tmp_path, ended("interrupted", "nobody left"), {}, paced=paced)
    assert "bad or missing updates" in (told := capsys.readouterr().err)
    assert told.endswith(hint)


def test_a_live_run_that_diverges_says_what_helps(capsys, tmp_path):
    with pytest.raises(typer.Exit):
        _report(tmp_path, ended("diverged"), {}, paced=False)
    assert "diverged in round 0: the model is not finite; try a smaller" in capsys.readouterr().err


def test_a_finished_run_is_no_failure_when_its_broker_is_gone(slotwise, tmp_path):
    parameters = RunConfig.from_options({"devices": 3, "group_size": 1})
    folder = RunFolder.create(tmp_path / "out", parameters)
    folder.write_description(parameters, "finished", live_run="x")
    code, _, errors = slotwise("serve", "--resume", tmp_path / "out", "--broker", "mqtt://127.0.0.1:1")
    assert code == 0
    assert "devices were not told that it is over: cannot reach a broker" in errors


def test_a_speed_or_a_fleet_takes_the_place_of_what_was_simulated(tmp_path):
    RunFolder.create(
        tmp_path / "run", RunConfig.from_options({"devices": 3, "group_size": 1, "compute_slots": 9})
    )
    assert new_parameters(tmp_path / "run", None, {"samples_per_slot": 80.0}).compute_slots == 4
    assert new_parameters(tmp_path / "run", None, {"bits_per_slot": 100_000}).link_slots == 7
    table = tmp_path / "fleet.csv"
    table.write_text("device,compute_slots\n1,2\n2,5\n")
    served = new_parameters(tmp_path / "run", None, {"fleet_file": table})
    assert (served.devices, served.device_compute_slots, served.compute_slots) == (2, (2, 5), 9)
