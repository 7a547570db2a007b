from pathlib import Path

import pytest

from slotwise.live.transport.broker import read_credentials


def test_it_says_what_to_do_next_and_credentials_name_their_channel(slotwise, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    code, out, err = slotwise("enroll", folder, "--devices", 3, "--host", "broker.example", "--name", "home")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{folder}: 3 devices, broker at mqtts://broker.example:8883, passwords",
        f"broker:  cd {folder}/broker && mosquitto -c mosquitto.conf",
        f"server:  slotwise serve --credentials {folder}/server.toml --devices 3 --group-size 1 --out RUN",
        f"device:  slotwise device --id 1 --credentials {folder}/device-1.toml",
    ]
    slotwise("enroll", folder, "--devices", 1, "--host", "broker.example", "--name", "home")
    for client in ("server", "device-1"):
        assert read_credentials(folder / f"{client}.toml").channel == "home"


def test_the_server_of_few_devices_and_of_many_is_one_that_can_be_started(slotwise, tmp_path: Path) -> None:
    for devices in (1, 9, 10):
        folder = tmp_path / str(devices)
        _, out, _ = slotwise("enroll", folder, "--devices", devices, "--host", "127.0.0.1", "--port", 1)
        words = out.splitlines()[2].replace("RUN", str(tmp_path / "run")).split()
        code, _, err = slotwise(*words[2:], "--wait", "1e-9")
        assert code == 2
        assert "cannot reach a broker" in err  # nothing else is wrong


def test_changes_are_told(slotwise, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    slotwise("enroll", folder, "--devices", 3, "--host", "localhost", "--certificates")
    code, out, err = slotwise("enroll", folder, "--revoke", 2, "--revoke", 3, "--add", 1)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == ["revoked: device-2, device-3", "added: device-2", f"{folder}: 2 devices"]
    assert "access and revoked.crl" in lines[3]


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("--certificates", ("--revoke", 2, "--add", 1), True),
        ("--certificates", ("--revoke", 2), False),
        ("--passwords", ("--revoke", 2, "--add", 1), False),
    ],
)
def test_it_says_when_a_reload_is_not_enough(slotwise, tmp_path: Path, kind, options, told: bool) -> None:
    slotwise("enroll", tmp_path / "fleet", "--devices", 3, "--host", "localhost", kind)
    _, out, _ = slotwise("enroll", tmp_path / "fleet", *options)
    assert ("restart it instead if the old device-2 may be connected" in out) == told


def test_a_folder_of_something_else_is_left_alone(slotwise, tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    code, _, err = slotwise("enroll", tmp_path, "--devices", 3, "--host", "localhost")
    assert code == 2
    assert err.startswith(f"slotwise: {tmp_path}: exists already")
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_certificates_are_renewed_by_their_end(slotwise, tmp_path):
    fleet = tmp_path / "fleet"
    slotwise("enroll", fleet, "--devices", 2, "--host", "localhost", "--certificates", "--days", 100)
    code, out, _ = slotwise("enroll", fleet, "--renew", 30)
    assert (code, out) == (0, f"{fleet}: no certificate ends within 30 days\n")
    code, out, _ = slotwise("enroll", fleet, "--renew", 100)
    assert code == 0
    assert [line.partition(",")[0] for line in out.splitlines()[:4]] == [
        f"renewed: {owner}" for owner in ("broker", "server", "device-1", "device-2")
    ]
    assert "send mosquitto SIGHUP" in out
    assert "copy server.crt and server.key" in out
    _, _, errors = slotwise("enroll", fleet, "--renew", 4000)
    assert "the authority itself ends on" in errors


@pytest.mark.parametrize("other", [("--add", "1"), ("--revoke", "1"), ("--days", "30"), ("--udp",)])
def test_a_renewal_is_no_other_change(slotwise, tmp_path, other):
    code, _, errors = slotwise("enroll", tmp_path / "fleet", "--renew", 30, *other)
    assert code == 2
    assert f"{other[0]} cannot be combined with --renew" in errors
