"""Authority: signs the certificates of one broker and its clients."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Host = str | IPv4Address | IPv6Address
# Certificates end up to this share of their time earlier, at random: not all of a fleet's on one day.
SPREAD = 0.1
LEAST_DAYS = 3650  # of an authority
EARLIER = timedelta(days=1)  # certificates are valid from then on, for devices whose clock is behind


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes
    serial: int
    end: datetime


class Authority:
    """Signs certificates for one broker and its clients, valid for about ``days`` days."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, days: int) -> None:
        self._certificate, self._key, self._days = certificate, key, days
        self._identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())

    @classmethod
    def make(cls, name: str, days: int) -> Authority:
        """Make a new authority that is valid for three times ``days`` days, and at least ten years."""
        key, subject = ec.generate_private_key(ec.SECP256R1()), _name(f"slotwise {name}")
        end = datetime.now(UTC) + timedelta(days=max(LEAST_DAYS, 3 * days))
        builder = _builder(subject, subject, key, end, ca=True)
        return cls(builder.sign(key, hashes.SHA256()), key, days)

    @classmethod
    def read(cls, certificate: bytes, key: bytes, days: int) -> Authority:
        """Load an authority from PEM, or raise a ValueError if certificate and key do not match."""
        loaded, private = x509.load_pem_x509_certificate(certificate), load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or loaded.public_key() != private.public_key():
            raise ValueError("certificate and key do not match")
        return cls(loaded, private, days)

    @property
    def end(self) -> datetime:
        """When the authority ends, and with it all certificates."""
        return self._certificate.not_valid_after_utc

    def certificate_pem(self) -> bytes:
        """Return the certificate, which is public."""
        return self._certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        """Return the private key."""
        return _key_pem(self._key)

    def for_broker(self, hosts: Sequence[Host]) -> Pair:
        """Issue a certificate for a broker with these names and addresses."""
        names = [x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host) for host in hosts]
        return self._issue("broker", ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def for_client(self, name: str) -> Pair:
        """Issue a certificate for a client, which cannot be used by a broker."""
        return self._issue(name, ExtendedKeyUsageOID.CLIENT_AUTH)

    def revocation_list(self, serials: Iterable[int]) -> bytes:
        """Return the revoked certificates; the list never expires, or the broker would reject all clients."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(now - EARLIER)
            .next_update(self._certificate.not_valid_after_utc)
            .add_extension(self._identifier, critical=False)
            # The numbers of lists must grow; with the time as the number there is no counter to keep.
            .add_extension(x509.CRLNumber(int(now.timestamp())), critical=False)
        )
        for serial in serials:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - EARLIER)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def _issue(self, name: str, purpose: x509.ObjectIdentifier, *extensions: x509.ExtensionType) -> Pair:
        key, issuer = ec.generate_private_key(ec.SECP256R1()), self._certificate
        days = self._days * (1 - SPREAD * secrets.randbelow(1 << 20) / (1 << 20))
        end = min(self.end, (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0))
        builder = _builder(_name(name), issuer.subject, key, end, ca=False)
        for extension in (x509.ExtendedKeyUsage([purpose]), self._identifier, *extensions):
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(Encoding.PEM), _key_pem(key), certificate.serial_number, end)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime, *, ca: bool
) -> x509.CertificateBuilder:
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = x509.KeyUsage(
        **dict.fromkeys((*unused, "encipher_only", "decipher_only"), False),
        **{"digital_signature": not ca, "key_cert_sign": ca, "crl_sign": ca},
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - EARLIER)
        .not_valid_after(end)
        # Path length 0: the authority may sign clients and brokers, but no other authority.
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])  # the limit of X.509
