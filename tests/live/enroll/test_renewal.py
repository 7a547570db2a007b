"""Renewal of certificates: whose, what remains valid, and clients that need not be restarted."""

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from processes import free_port, until

from slotwise.base.errors import InputError
from slotwise.live.enroll.authority import Authority
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.enroll.enrolment_folder import change_enrolment, create_enrolment, renew_certificates
from slotwise.live.transport.broker import BrokerOptions, read_credentials
from slotwise.live.transport.certificate_end import SOON_DAYS, certificate_end, ends_soon
from slotwise.live.transport.mqtt import connected_channel

YEAR = 365


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """An enrolment of three devices with certificates for a year."""
    folder = tmp_path / "fleet"
    create_enrolment(folder, Enrolment(["localhost"], free_port(), by_certificate=True, days=YEAR), 3)
    return folder


def state(folder: Path) -> Enrolment:
    return Enrolment.from_json((folder / "enrolment.json").read_text())


def certificates(folder: Path) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in (*folder.glob("*.crt"), *folder.glob("broker/*.crt"))}


def test_only_what_ends_soon_is_renewed(fleet: Path) -> None:
    before, enrolment = certificates(fleet), state(fleet)
    assert renew_certificates(fleet, 30)[1] == []
    assert certificates(fleet) == before
    soon = (datetime.now(UTC) + timedelta(days=20)).date().isoformat()
    issued = {
        s: (n, soon if n in ("device-2", "broker") else end) for s, (n, end) in enrolment.issued.items()
    }
    (fleet / "enrolment.json").write_text(replace(enrolment, issued=issued).to_json())
    renewed, owners, end = renew_certificates(fleet, 30)
    assert owners == ["broker", "device-2"]
    after = certificates(fleet)
    assert {name for name in after if after[name] != before[name]} == {"broker", "device-2"}
    assert renewed.devices[2] != enrolment.devices[2]
    assert renewed.devices[3] == enrolment.devices[3]
    last = renewed.last_day("device-2")
    assert last is not None
    assert 0.89 * YEAR < (last - datetime.now(UTC).date()).days <= YEAR
    assert (end - datetime.now(UTC)).days > 9 * YEAR
    assert state(fleet).to_json() == renewed.to_json()
    assert renew_certificates(fleet, 30)[1] == []  # and it is done


def test_with_passwords_only_the_broker_has_a_certificate(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"], days=YEAR), 2)
    passwords = (tmp_path / "fleet" / "broker" / "passwords").read_text()
    assert renew_certificates(tmp_path / "fleet", 2 * YEAR)[1] == ["broker"]
    assert (tmp_path / "fleet" / "broker" / "passwords").read_text() == passwords


def test_over_udp_there_is_nothing_to_renew(tmp_path: Path) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"], udp=True), 2)
    with pytest.raises(InputError, match="no certificates over UDP"):
        renew_certificates(tmp_path / "fleet", 30)


def test_a_revoked_device_loses_its_earlier_certificate_too(fleet: Path) -> None:
    first = state(fleet).devices[2]
    renew_certificates(fleet, 2 * YEAR)
    second = state(fleet).devices[2]
    change_enrolment(fleet, revoke=[2])
    revoked = x509.load_pem_x509_crl((fleet / "broker" / "revoked.crl").read_bytes())
    assert {f"{entry.serial_number:x}" for entry in revoked} == {first, second}


def test_what_has_ended_is_forgotten() -> None:
    issued = {
        "a": ("device-1", "2026-01-31"),
        "b": ("device-1", "2026-03-01"),
        "c": ("device-2", "2026-02-01"),
    }
    enrolment = Enrolment(["localhost"], by_certificate=True, revoked=["a", "c", "d"], issued=issued)
    left = enrolment.without_ended(date(2026, 2, 1))
    assert set(left.issued) == {"b", "c"}
    assert left.revoked == ["c", "d"]  # of d the end is not known


def test_the_end_of_a_certificate_is_read_without_a_library(fleet: Path, tmp_path: Path) -> None:
    for name in ("device-1", "server", "ca"):
        expected = x509.load_pem_x509_certificate((fleet / f"{name}.crt").read_bytes()).not_valid_after_utc
        assert certificate_end(fleet / f"{name}.crt") == expected
    later = Authority.make("trial", 30_000)  # in another form: after 2049
    (tmp_path / "later.crt").write_bytes(later.certificate_pem())
    assert certificate_end(tmp_path / "later.crt") == later.end
    whole = (fleet / "ca.crt").read_bytes()
    for damaged in (b"", b"no certificate", whole[:200], whole.replace(b"MII", b"AAA", 1)):
        (tmp_path / "damaged.crt").write_bytes(damaged)
        assert certificate_end(tmp_path / "damaged.crt") is None
    assert certificate_end(tmp_path / "nowhere") is None


def test_a_certificate_that_ends_soon_is_a_warning(fleet: Path) -> None:
    options = BrokerOptions(credentials=fleet / "device-1.toml")
    assert options.warnings() == []
    end = certificate_end(fleet / "device-1.crt")
    assert end is not None
    text = ends_soon(fleet / "device-1.crt", end - timedelta(days=SOON_DAYS - 1))
    assert f"ends on {end:%Y-%m-%d}, in 29 days" in text
    assert "has ended" in ends_soon(fleet / "device-1.crt", end + timedelta(hours=1))
    assert ends_soon(fleet / "device-1.crt", end - timedelta(days=SOON_DAYS + 1)) == ""


def broker_certificate(port: int) -> datetime:
    """When the certificate ends that a broker shows."""
    pem = subprocess.run(
        ["openssl", "s_client", "-connect", f"localhost:{port}"], check=False, input=b"", capture_output=True
    ).stdout
    begin = pem.index(b"-----BEGIN CERTIFICATE")
    return x509.load_pem_x509_certificate(pem[begin:]).not_valid_after_utc


def test_mosquitto_takes_a_renewed_certificate_at_a_reload(fleet: Path, start: Callable[[Path], Any]) -> None:
    mosquitto, port = start(fleet), state(fleet).port
    old = certificate_end(fleet / "broker" / "broker.crt")
    assert broker_certificate(port) == old
    earlier = {name: (fleet / f"device-1.{name}").read_bytes() for name in ("crt", "key")}
    renew_certificates(fleet, 2 * YEAR)
    new = certificate_end(fleet / "broker" / "broker.crt")
    assert new != old
    mosquitto.reload()
    assert mosquitto.soon_accepts("device-2")
    for name, content in earlier.items():  # a device that has not got the new one yet
        (fleet / f"device-1.{name}").write_bytes(content)
    assert mosquitto.soon_accepts("device-1")
    until(lambda: broker_certificate(port) == new, "renewed certificate of the broker", 20)


def test_a_client_uses_a_renewed_certificate_when_it_reconnects(
    fleet: Path, start: Callable[[Path], Any]
) -> None:
    mosquitto = start(fleet)

    async def scenario() -> int:
        broker = read_credentials(fleet / "device-1.toml")
        async with connected_channel(broker, "some-device-1") as channel, asyncio.timeout(60):
            while not channel.connected:
                await asyncio.sleep(0.01)
            enrolment = state(fleet)
            renew_certificates(fleet, 2 * YEAR)
            # The broker accepts the earlier one no more.
            pair = [(fleet / name).read_bytes() for name in ("ca.crt", "authority/ca.key")]
            authority = Authority.read(pair[0], pair[1], YEAR)
            revoked = authority.revocation_list([int(enrolment.devices[1], 16)])
            (fleet / "broker" / "revoked.crl").write_bytes(revoked)
            mosquitto.process.terminate()
            mosquitto.process.wait()
            await asyncio.to_thread(start, fleet)
            while channel.connections < 2 or not channel.connected:
                await asyncio.sleep(0.01)
            return channel.connections

    assert asyncio.run(scenario()) == 2
