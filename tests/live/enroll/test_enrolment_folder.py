import shutil
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from slotwise.base.errors import UserError
from slotwise.base.files import held, write_atomically
from slotwise.cli.app import run as main
from slotwise.live.enroll import enrolment_folder as module
from slotwise.live.enroll.enrolment import Enrolment, last_enrolled
from slotwise.live.enroll.enrolment_folder import Authority, change_enrolment, create_enrolment
from slotwise.live.transport.broker import read_credentials


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_secrets_are_for_their_owner_and_credentials_name_files_beside_them(enrolled: Path) -> None:
    secret = [path for path in enrolled.rglob("*") if path.suffix in {".key", ".toml"}]
    secret += [enrolled / "enrolment.json", *enrolled.glob("broker/passwords")]
    assert len(secret) > 10
    assert {path.stat().st_mode & 0o077 for path in secret} == {0}
    key = (enrolled / "authority" / "ca.key").read_bytes()
    assert [name for name, content in contents(enrolled).items() if content == key] == ["authority/ca.key"]
    broker = read_credentials(enrolled / "device-7.toml")
    assert broker.ca == enrolled / "ca.crt"
    assert (broker.certificate is None) == (broker.user == "device-7")
    assert broker.tls_context() is not None
    before = contents(enrolled)
    with pytest.raises(UserError, match="change it with --add or --revoke"):
        create_enrolment(enrolled, Enrolment(["localhost"]), 1)
    assert contents(enrolled) == before


def test_passwords_are_nowhere_but_in_their_owner_s_file(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"]), 2)
    for name in ("server", "device-1", "device-2"):
        password = read_credentials(tmp_path / "fleet" / f"{name}.toml").password
        assert password is not None
        found = [
            path for path, content in contents(tmp_path / "fleet").items() if password.encode() in content
        ]
        assert found == [f"{name}.toml"]


@pytest.mark.parametrize("what", ["folder", "file", "dangling link"])
def test_something_else_is_left_alone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "fleet"
    if what == "folder":
        path.mkdir()
    elif what == "file":
        path.touch()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(UserError, match="exists already"):
        create_enrolment(path, Enrolment(["localhost"]), 1)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_on("device-2.toml", monkeypatch)
    with pytest.raises(UserError, match="no space"):
        create_enrolment(tmp_path / "fleet", Enrolment(["localhost"]), 3)
    assert list(tmp_path.iterdir()) == []


def test_new_devices_change_nothing_for_others(enrolled: Path) -> None:
    before = contents(enrolled)
    enrolment, numbers = change_enrolment(enrolled, revoke=[], add=2)
    assert numbers == [9, 10]
    after = contents(enrolled)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"enrolment.json", "broker/access", "broker/passwords", "broker/revoked.crl"}
    assert sorted(enrolment.devices) == list(range(1, 11))


def test_new_devices_keep_the_proofs_of_others(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"]), 2)
    before = (tmp_path / "fleet" / "broker" / "passwords").read_text()
    change_enrolment(tmp_path / "fleet", revoke=[], add=1)
    assert (tmp_path / "fleet" / "broker" / "passwords").read_text().startswith(before)


def test_a_revoked_device_is_nowhere_to_be_found(enrolled: Path) -> None:
    change_enrolment(enrolled, revoke=[7], add=0)
    assert not list(enrolled.glob("device-7.*"))
    assert b"device-7" not in b"".join(contents(enrolled / "broker").values())


def test_the_number_of_a_revoked_device_is_given_to_the_next_with_other_secrets(enrolled: Path) -> None:
    before = {path.name: path.read_bytes() for path in enrolled.glob("device-7.*")}
    _, numbers = change_enrolment(enrolled, revoke=[7], add=2)
    assert numbers == [7, 9]
    names = [name for name in before if not (name.endswith(".toml") and len(before) == 3)]
    assert all((enrolled / name).read_bytes() != before[name] for name in names)


def test_all_certificates_that_were_revoked_stay_so(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"], by_certificate=True), 3)
    change_enrolment(tmp_path / "fleet", revoke=[2], add=1)
    enrolment, _ = change_enrolment(tmp_path / "fleet", revoke=[2, 3], add=0)
    assert len(set(enrolment.revoked)) == 3


def test_the_broker_s_configuration_is_written_once(enrolled: Path) -> None:
    configuration = enrolled / "broker" / "mosquitto.conf"
    configuration.write_text(configuration.read_text() + "max_connections 20\n")
    change_enrolment(enrolled, revoke=[1], add=2)
    assert configuration.read_text().endswith("max_connections 20\n")


def test_a_device_that_is_not_enrolled_cannot_be_revoked(enrolled: Path) -> None:
    change_enrolment(enrolled, revoke=[3, 8], add=0)
    before = contents(enrolled)
    with pytest.raises(UserError, match="an enrolled device: 1 to 2, 4 to 7"):
        change_enrolment(enrolled, revoke=[1, 3], add=0)
    assert contents(enrolled) == before


@pytest.mark.parametrize("name", ["access", "enrolment.json"])
def test_a_change_that_failed_is_made_by_doing_it_again(
    enrolled: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_on(name, patch)
        with pytest.raises(UserError, match="no space"):
            change_enrolment(enrolled, revoke=[7], add=2)
    enrolment, numbers = change_enrolment(enrolled, revoke=[7], add=2)
    assert numbers == [7, 9]
    assert sorted(enrolment.devices) == list(range(1, 10))


def test_passwords_need_no_authority_later(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"]), 1)
    shutil.rmtree(tmp_path / "fleet" / "authority")
    change_enrolment(tmp_path / "fleet", revoke=[1], add=2)


def test_certificates_need_it(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"], by_certificate=True), 1)
    shutil.rmtree(tmp_path / "fleet" / "authority")
    before = contents(tmp_path / "fleet")
    with pytest.raises(UserError, match=r"ca\.key: No such file or directory: needed to sign certificates"):
        change_enrolment(tmp_path / "fleet", revoke=[], add=1)
    assert contents(tmp_path / "fleet") == before


def test_a_damaged_key_is_named(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"], by_certificate=True), 1)
    (tmp_path / "fleet" / "authority" / "ca.key").write_text("nonsense")
    with pytest.raises(UserError, match=r"ca\.key: damaged"):
        change_enrolment(tmp_path / "fleet", revoke=[], add=1)


def test_a_damaged_state_is_named(enrolled: Path) -> None:
    (enrolled / "enrolment.json").write_text("{}")
    with pytest.raises(UserError, match=r"enrolment\.json: damaged"):
        change_enrolment(enrolled, revoke=[], add=1)


def test_one_process_at_a_time_changes_it(enrolled: Path) -> None:
    with held(enrolled, ""), pytest.raises(UserError, match="another process"):
        change_enrolment(enrolled, revoke=[], add=1)


def fail_on(name: str, patch: pytest.MonkeyPatch) -> None:
    """Let the disk be full when a file of this name is written."""

    def write(path: Path, data: bytes | str, *, private: bool = False) -> None:
        if path.name == name:
            raise UserError(f"cannot write {path}: no space left on device")
        write_atomically(path, data, private=private)

    patch.setattr(module, "write_atomically", write)


HOSTS = ["broker.example", ip_address("192.0.2.7"), ip_address("2001:db8::7")]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("trial", 100)


def policy(authority: Authority) -> PolicyBuilder:
    return PolicyBuilder().store(Store([x509.load_pem_x509_certificate(authority.certificate_pem())]))


@pytest.mark.parametrize("host", HOSTS)
def test_the_broker_is_who_it_says_under_each_of_its_names(authority: Authority, host: object) -> None:
    subject = x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)
    certificate = x509.load_pem_x509_certificate(authority.for_broker(HOSTS).certificate)
    assert policy(authority).build_server_verifier(subject).verify(certificate, [])


def test_a_certificate_is_for_its_names_and_its_use_only(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.for_broker(HOSTS).certificate)
    with pytest.raises(VerificationError):
        policy(authority).build_server_verifier(x509.DNSName("other.example")).verify(certificate, [])
    certificate = x509.load_pem_x509_certificate(authority.for_client("broker.example").certificate)
    with pytest.raises(VerificationError):
        policy(authority).build_server_verifier(x509.DNSName("broker.example")).verify(certificate, [])
    certificate = x509.load_pem_x509_certificate(authority.for_client("device-7").certificate)
    assert certificate.subject.rfc4514_string() == "CN=device-7"
    own = x509.load_pem_x509_certificate(authority.certificate_pem())
    revoked = x509.load_pem_x509_crl(authority.revocation_list([]))
    assert revoked.next_update_utc == own.not_valid_after_utc == authority.end
    assert abs(authority.end - datetime.now(UTC) - timedelta(days=3650)) < timedelta(minutes=10)


def test_certificates_of_one_day_do_not_end_on_one_day(authority: Authority) -> None:
    now, pairs = datetime.now(UTC), [authority.for_client(f"device-{n}") for n in range(1, 41)]
    for pair in pairs:
        assert x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc == pair.end
    days = [(pair.end - now).total_seconds() / 86400 for pair in pairs]
    assert 89.9 < min(days) < max(days) < 100.1
    assert len({pair.end.date() for pair in pairs}) > 5
    assert Authority.make("trial", 30_000).end.year > datetime.now(UTC).year + 200


def test_a_kept_authority_signs_on_and_revokes(authority: Authority) -> None:
    again = Authority.read(authority.certificate_pem(), authority.key_pem(), 100)
    certificate = x509.load_pem_x509_certificate(again.for_broker(["localhost"]).certificate)
    assert policy(authority).build_server_verifier(x509.DNSName("localhost")).verify(certificate, [])
    with pytest.raises(ValueError, match="do not match"):
        Authority.read(authority.certificate_pem(), Authority.make("other", 1).key_pem(), 1)
    revoked = x509.load_pem_x509_crl(authority.revocation_list([5, 7]))
    assert [entry.serial_number for entry in revoked] == [5, 7]


def test_a_server_refuses_more_devices_than_are_enrolled(
    enrolled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = ["serve", "--credentials", enrolled / "server.toml", "--group-size", 1, "--out", out]
    assert main([*map(str, command), "--devices", "9"]) == 2
    assert "--devices 9: must be at most 8, as many as are enrolled" in capsys.readouterr().err
    assert not out.exists()
    change_enrolment(enrolled, add=1)
    assert last_enrolled(enrolled / "server.toml") == 9
    alone = shutil.copy(enrolled / "server.toml", tmp_path)  # nothing is known of the others
    assert last_enrolled(Path(alone)) is None
