from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from slotwise.live.enroll.authority import Authority

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


def test_the_broker_is_nobody_under_another_name(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.for_broker(HOSTS).certificate)
    with pytest.raises(VerificationError):
        policy(authority).build_server_verifier(x509.DNSName("other.example")).verify(certificate, [])


def test_a_client_s_certificate_makes_no_broker_of_it(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.for_client("broker.example").certificate)
    with pytest.raises(VerificationError):
        policy(authority).build_server_verifier(x509.DNSName("broker.example")).verify(certificate, [])


def test_a_client_s_certificate_carries_its_name(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.for_client("device-7").certificate)
    assert certificate.subject.rfc4514_string() == "CN=device-7"


def test_everything_ends_with_the_authority(authority: Authority) -> None:
    own = x509.load_pem_x509_certificate(authority.certificate_pem())
    revoked = x509.load_pem_x509_crl(authority.revocation_list([]))
    for pair in (authority.for_broker(HOSTS), authority.for_client("device-7")):
        assert x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc == own.not_valid_after_utc
    assert revoked.next_update_utc == own.not_valid_after_utc
    assert abs(own.not_valid_after_utc - datetime.now(UTC) - timedelta(days=100)) < timedelta(minutes=10)


def test_a_kept_authority_signs_on(authority: Authority) -> None:
    again = Authority.read(authority.certificate_pem(), authority.key_pem())
    certificate = x509.load_pem_x509_certificate(again.for_broker(["localhost"]).certificate)
    assert policy(authority).build_server_verifier(x509.DNSName("localhost")).verify(certificate, [])


def test_a_key_of_another_authority_is_refused(authority: Authority) -> None:
    with pytest.raises(ValueError, match="do not match"):
        Authority.read(authority.certificate_pem(), Authority.make("other", 1).key_pem())


def test_the_revocation_list_names_who_is_shut_out(authority: Authority) -> None:
    revoked = x509.load_pem_x509_crl(authority.revocation_list([5, 7]))
    assert [entry.serial_number for entry in revoked] == [5, 7]
