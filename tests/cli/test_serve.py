"""Mistakes on the command line of live runs; the runs themselves are in tests/live."""

from pathlib import Path

import pytest

from slotwise.cli import serve as serve_command
from slotwise.cli.app import HOPELESS
from slotwise.cli.live_report import report
from slotwise.live.server.live_run import LiveOutcome
from slotwise.live.server.server_config import LivePlan, ServerConfig
from slotwise.live.server.serving import config_like, new_live_folder
from slotwise.live.server.state import LiveState
from slotwise.runs import RunConfig, RunFolder

CONFIG = RunConfig.from_options({"devices": 3, "group_size": 1})
NOWHERE = ["--broker", "mqtt://127.0.0.1:1"]
AT_ONCE = ["--wait", "1e-9"]  # not for a broker that cannot be reached


@pytest.mark.parametrize("flag", ["--jitter", "--uplink-loss", "--mean-present", "--mean-away"])
def test_there_are_no_flags_for_simulated_faults(slotwise, tmp_path, flag):
    code, _, errors = slotwise("serve", "--out", tmp_path / "out", flag, "0.5")
    assert code == 2
    assert flag in errors.splitlines()[-1]


def finished_run(path):
    RunFolder.create(path, CONFIG).write_description(CONFIG, "finished", live_run="x")
    return path


def test_a_service_that_restarts_gives_the_same_options_again(slotwise, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("devices = 3\ngroup-size = 1\n")
    out = finished_run(tmp_path / "out")
    code, _, errors = slotwise("serve", "--out", out, "--go-on", "--config", config)
    assert code == 0
    assert "finished already" in errors
    code, _, errors = slotwise("serve", "--resume", out, *NOWHERE)
    assert code == 0
    assert "devices were not told" in errors


def test_a_service_that_was_killed_just_after_it_had_made_its_folder_is_resumed(slotwise, tmp_path):
    new_live_folder(tmp_path / "out", CONFIG, ServerConfig())
    code, _, errors = slotwise("serve", "--out", tmp_path / "out", "--go-on", *NOWHERE, *AT_ONCE)
    assert code == 2
    assert "cannot reach a broker" in errors.splitlines()[-1]  # nothing else is wrong


def test_a_service_that_was_killed_while_it_made_its_folder_begins_anew(slotwise, tmp_path):
    (tmp_path / ".0123456789abcdef.tmp").touch()
    code, _, errors = slotwise(
        "serve", "--out", tmp_path, "--devices", 3, "--group-size", 1, *NOWHERE, *AT_ONCE
    )
    assert code == 2
    assert "cannot reach a broker" in errors


def test_a_folder_without_permission_is_refused(slotwise, tmp_path, monkeypatch):
    def forbidden(path, **how):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", forbidden)  # root has all permissions
    code, _, errors = slotwise("serve", "--devices", 3, "--group-size", 1, "--out", tmp_path / "a" / "b")
    assert code == 2
    assert errors.endswith("(Permission denied)\n")


@pytest.mark.parametrize("command", [("serve", "--out", "OUT"), ("device", "--id", "1")])
def test_a_channel_that_is_not_that_of_the_credentials_is_refused(slotwise, tmp_path, command):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtt://127.0.0.1:1"\nname = "home"\n')
    out = tmp_path / "out"
    words = [out if word == "OUT" else word for word in command]
    code, _, errors = slotwise(*words, "--credentials", file, "--name", "garden")
    assert code == 2
    assert "--name garden" in errors
    assert "home" in errors
    assert not out.exists()


@pytest.mark.parametrize("login", ["--passwords", "--certificates"])
def test_credentials_of_another_client_are_refused(slotwise, tmp_path, login):
    fleet, out = tmp_path / "fleet", tmp_path / "out"
    slotwise("enroll", fleet, "--devices", 2, "--host", "127.0.0.1", "--port", 1, login)
    for name in ("server", "device-1"):  # the owner does not depend on the names of files
        if login == "--certificates":
            (fleet / f"{name}.crt").rename(fleet / f"of-{name}.crt")
        text = (fleet / f"{name}.toml").read_text().replace(f"{name}.crt", f"of-{name}.crt")
        (fleet / f"{name}.toml").write_text(text)
    for *command, client, owner in [
        ("device", "--id", 2, "device-2", "device-1"),
        ("device", "--id", 1, "device-1", "server"),
        ("serve", "--out", out, "server", "device-1"),
    ]:
        code, _, errors = slotwise(*command, "--credentials", fleet / f"{owner}.toml")
        assert (code, errors) == (2, f"slotwise: --credentials {owner}: must be those of {client}\n")
    enrolled = ("--credentials", fleet / "server.toml", "--devices", 2, "--group-size", 1)
    code, _, errors = slotwise("serve", "--out", out, *enrolled, *AT_ONCE)
    assert "cannot reach a broker" in errors
    assert not out.exists()


def test_credentials_for_tls_are_not_used_without(slotwise, tmp_path):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtts://127.0.0.1:1"\nuser = "device-1"\npassword = "p"\n')
    code, _, errors = slotwise("device", "--id", 1, "--credentials", file, *NOWHERE)
    assert code == 2
    assert "TLS only" in errors


def ended(status, trouble=None):
    return LiveOutcome(status, LiveState(LivePlan.of(CONFIG).scheduler()), None, trouble)


@pytest.mark.parametrize(
    ("outcome", "code", "hint"),
    [
        (ended("interrupted", "superseded"), HOPELESS, "--name"),
        (ended("interrupted"), 130, "--resume"),
        (ended("diverged"), HOPELESS, "learning_rate"),
        (ended("finished"), 0, ""),
    ],
    ids=["superseded", "interrupted", "diverged", "finished"],
)
def test_the_end_of_a_run_is_reported_with_its_exit_code_and_what_may_help(
    capsys, tmp_path, outcome, code, hint
):
    assert report(tmp_path, outcome, {}) == code
    assert hint in capsys.readouterr().err


def test_a_speed_or_a_fleet_replaces_what_was_simulated(tmp_path):
    RunFolder.create(
        tmp_path / "run", RunConfig.from_options({"devices": 3, "group_size": 1, "compute_slots": 9})
    )

    def like(**given):
        return config_like(tmp_path / "run", given)

    assert like(samples_per_slot=80.0).channel.compute_slots == 4
    assert like(bits_per_slot=100_000).channel.link_slots == 7
    table = tmp_path / "fleet.csv"
    table.write_text("device,compute_slots\n1,2\n2,5\n")
    served = like(fleet_file=table)
    assert (served.channel.devices, served.fleet.speeds.device_compute_slots) == (2, (2, 5))


@pytest.mark.parametrize(
    "options",
    [
        ["--out", "OUT", "--timeout", "0"],
        ["--out", "OUT", "--name", "a/b"],
        ["--out", "OUT", "--devices", "10001"],
        ["--out", "OUT", "--broker", "host"],
        ["--out", "OUT", "--task", "no_such_module:make"],
        ["--out", "FULL"],
        ["--resume", "nowhere"],
        [],
    ],
)
def test_no_page_is_opened_before_all_options_are_checked(slotwise, tmp_path, monkeypatch, options) -> None:
    opened = []
    monkeypatch.setattr(serve_command, "live_page", lambda *arguments, **settings: opened.append(arguments))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    paths = {"OUT": tmp_path / "run", "FULL": tmp_path / "full"}
    code, _, errors = slotwise("serve", "--page", *(paths.get(option, option) for option in options))
    assert (code, errors.count("\n"), opened) == (2, 1, [])


def plans_in(folder):
    folder.mkdir()
    (folder / "a.toml").write_text("devices = 3\ngroup-size = 1\n")
    return folder


BESIDE = [("--config", "run.toml"), ("--go-on",), ("--devices", "3"), ("--resume", "x")]


@pytest.mark.parametrize("more", BESIDE)
def test_a_campaign_has_its_options_in_its_plans(slotwise, tmp_path, more):
    campaign = ["--campaign", plans_in(tmp_path / "plans"), "--out", tmp_path / "out"]
    code, _, errors = slotwise("serve", *campaign, *more, *NOWHERE)
    assert code == 2
    assert f"{more[0]} cannot be combined with --campaign" in errors
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [("--repeat",), ("--keep-runs", "3"), ("--start-at", "02:00")])
def test_options_of_a_campaign_need_one(slotwise, tmp_path, option):
    code, _, errors = slotwise("serve", "--out", tmp_path / "out", *option)
    assert code == 2
    assert option[0] in errors
    assert "without campaign" in errors


def test_a_campaign_needs_a_folder_for_its_runs_and_plans_that_can_be_played(slotwise, tmp_path):
    plans = plans_in(tmp_path / "plans")
    code, _, errors = slotwise("serve", "--campaign", plans)
    assert (code, errors.splitlines()[-1][:21]) == (2, "slotwise: --out is mi")
    (plans / "b.toml").write_text("jitter = 0.5\ndevices = 3\ngroup-sise = 1\n")
    code, _, errors = slotwise("serve", "--campaign", plans, "--out", tmp_path / "out", *NOWHERE)
    assert code == 2
    assert "b.toml" in errors
    assert "group-sise" in errors
    assert not (tmp_path / "out").exists()


def test_a_campaign_is_not_played_in_the_folder_of_a_run(slotwise, tmp_path):
    out = finished_run(tmp_path / "out")
    code, _, errors = slotwise("serve", "--campaign", plans_in(tmp_path / "plans"), "--out", out)
    assert code == 2
    assert "this is the folder of a run" in errors


def test_a_campaign_that_is_over_says_so(slotwise, tmp_path):
    run = tmp_path / "out" / "2026-11-18T020000Z-0001-a"
    finished_run(run)
    code, _, errors = slotwise("serve", "--campaign", plans_in(tmp_path / "plans"), "--out", tmp_path / "out")
    assert code == 0
    assert "is over" in errors
