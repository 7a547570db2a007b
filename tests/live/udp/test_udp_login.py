"""What is enrolled for UDP, and how wrong logins are refused: in one line."""

import json

import pytest

from slotwise.base.errors import UserError
from slotwise.cli.app import run as main
from slotwise.live.transport.broker import BrokerOptions
from slotwise.live.transport.udp_login import read_udp_credentials


@pytest.fixture(scope="module")
def enrolled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("udp") / "enrolled"
    assert main(["enroll", str(folder), "--udp", "--devices", "3", "--host", "127.0.0.1"]) == 0
    return folder


def test_server_and_devices_have_the_same_keys_and_each_device_only_its_own(enrolled):
    keys = read_udp_credentials(enrolled / "server.toml").keys
    logins = [read_udp_credentials(enrolled / f"device-{number}.toml") for number in (1, 2, 3)]
    assert [*keys.values()] == [login.secret for login in logins]
    assert len(set(keys.values())) == 3
    assert not any(login.keys for login in logins)
    assert sorted(path.name for path in enrolled.iterdir()) == [
        *(f"device-{number}.toml" for number in (1, 2, 3)),
        *("enrolment.json", "keys.toml", "server.toml"),
    ]
    assert {path.stat().st_mode & 0o077 for path in enrolled.iterdir()} == {0}


def test_a_revoked_number_gets_another_key(tmp_path, capsys):
    folder = tmp_path / "e"
    assert main(["enroll", str(folder), "--udp", "--devices", "2", "--host", "127.0.0.1"]) == 0
    before = read_udp_credentials(folder / "server.toml").keys
    assert main(["enroll", str(folder), "--revoke", "2"]) == 0
    assert read_udp_credentials(folder / "server.toml").keys == {1: before[1]}
    assert not (folder / "device-2.toml").exists()
    assert main(["enroll", str(folder), "--add", "1"]) == 0
    after = read_udp_credentials(folder / "server.toml").keys
    assert after[1] == before[1]
    assert after[2] not in (before[2], b"")
    assert "this takes effect when the server is started again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--udp", "--certificates"], "--certificates cannot be combined with --udp"),
        (["--udp", "--days", "3"], "--days cannot be combined with --udp"),
        (["--udp", "--largest-model", "3"], "--largest-model cannot be combined with --udp"),
    ],
)
def test_options_of_a_broker_are_refused_at_enrolment(flags, line, tmp_path, capsys):
    assert main(["enroll", str(tmp_path / "e"), "--devices", "1", "--host", "h", *flags]) == 2
    assert line in capsys.readouterr().err


def test_more_devices_than_are_enrolled_are_refused(enrolled, tmp_path, capsys):
    out = tmp_path / "run"
    command = ["serve", "--credentials", enrolled / "server.toml", "--devices", 9, "--out", out]
    assert main([*map(str, command), "--group-size", "1"]) == 2
    assert "--devices 9: must be at most 3, as many as are enrolled" in capsys.readouterr().err
    assert not out.exists()


def test_over_udp_a_missing_host_is_that_of_the_server(tmp_path, capsys):
    assert main(["enroll", str(tmp_path / "e"), "--udp", "--devices", "3"]) == 2
    assert "--host is missing; it must be the name or address of the server" in capsys.readouterr().err


def refused(capsys, *command):
    assert main([*map(str, command)]) == 2
    return capsys.readouterr().err


def test_wrong_logins_are_refused_in_one_line(enrolled, capsys, tmp_path):
    own, server = enrolled / "device-1.toml", enrolled / "server.toml"
    of_server = ("--credentials", server)
    new = ("--devices", 3, "--group-size", 1, "--out", tmp_path / "run")
    for line, command in {
        "--credentials is missing": ("device", "--id", 1, "--broker", "udp://127.0.0.1"),
        "--credentials device-1: must be those of device-2": ("device", "--id", 2, "--credentials", own),
        "--credentials device-1: must be those of server": ("serve", "--credentials", own, *new),
        "--credentials server: must be those of device-1": ("device", "--id", 1, "--credentials", server),
        "--broker udp://": ("device", "--id", 1, "--credentials", own, "--broker", "udp://"),
        "--broker mqtt://h": ("device", "--id", 1, "--credentials", own, "--broker", "mqtt://h"),
        "--frame-bytes 300": ("serve", "--frame-bytes", 300, *new),
        "--frame-bytes 100: must be a whole number from 128 to 1,472": (
            "serve",
            *of_server,
            "--frame-bytes",
            100,
            *new,
        ),
        "--multicast 239.1.2.3: must be omitted without": ("serve", "--multicast", "239.1.2.3", *new),
        "--multicast 224.0.0.1: must be ADDRESS[:PORT]": (
            "serve",
            *of_server,
            "--multicast",
            "224.0.0.1",
            *new,
        ),
        "--grants-ahead True: must be omitted without a broker of udp://": ("serve", "--grants-ahead", *new),
        "--slot-ms is missing; it must be the milliseconds": ("serve", *of_server, "--grants-ahead", *new),
        "--guard-ms 5.0: must be omitted without grants_ahead": ("serve", *of_server, "--guard-ms", 5, *new),
        "--frame-bytes 128: must be at least 154 with grants_ahead": (
            *("serve", *of_server, "--grants-ahead", "--slot-ms", 100),
            *("--frame-bytes", 128, *new),
        ),
        "--slot-ms 0.01: must be above": (
            *("serve", *of_server, "--grants-ahead", "--slot-ms", 0.01, "--guard-ms", 1, *new),
            *("--task", "tasks:make"),
        ),
        "what is learned decides this schedule": (
            *("serve", *of_server, "--grants-ahead", "--slot-ms", 100, *new),
            *("--task", "tasks:make", "--schedule", "sync", "--participation", "update-norm"),
        ),
        "--packet-kib 5000: must be at most 4096": ("serve", *of_server, "--packet-kib", 5000, *new),
        "--listen cannot be combined": ("serve", *of_server, "--listen", "127.0.0.1:1", *new),
    }.items():
        said = refused(capsys, *command)
        assert line in said
        assert len(said.splitlines()) == 1, said


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table | {"secret": "short"},
        lambda table: table | {"keys": "keys.toml"},
        lambda table: {name: value for name, value in table.items() if name != "name"},
        lambda table: table | {"password": "x"},
    ],
)
def test_a_damaged_file_is_named(enrolled, tmp_path, change):
    table = dict(line.split(" = ") for line in (enrolled / "device-1.toml").read_text().splitlines())
    changed = change({name: json.loads(value) for name, value in table.items()})
    path = tmp_path / "device-1.toml"
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in changed.items()))
    with pytest.raises(UserError, match=r"device-1\.toml: "):
        BrokerOptions(credentials=path).login("device-1")


def test_a_device_without_a_server_ends_after_its_timeout(enrolled, capsys):
    said = refused(
        capsys, "device", "--id", 1, "--credentials", enrolled / "device-1.toml", "--timeout", 0, "--quiet"
    )
    assert said.startswith("slotwise: cannot reach a server at udp://127.0.0.1:8883 (no answer")


def test_two_servers_cannot_listen_at_one_address(enrolled, capsys, tmp_path):
    import socket

    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"udp://127.0.0.1:{taken.getsockname()[1]}"
        login = ("--credentials", enrolled / "server.toml", "--broker", where)
        plan = ("--devices", 3, "--group-size", 1, "--compute-slots", 1, "--deadline", 20)
        task = ("--task", "tasks:make", "--out", tmp_path / "run")
        assert f"cannot listen at {where}" in refused(capsys, "serve", *login, *plan, *task)
    assert not (tmp_path / "run").exists()
