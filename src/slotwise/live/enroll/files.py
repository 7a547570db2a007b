"""What is written for whom: files as values, by name, secret or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotwise.live.enroll.access import SERVER, access_file, device_user
from slotwise.live.enroll.authority import Authority
from slotwise.live.enroll.enrolment import Enrolment, host_of
from slotwise.live.enroll.mosquitto import (
    ACCESS,
    AUTHORITY,
    CERTIFICATE,
    CONFIGURATION,
    KEY,
    PASSWORDS,
    REVOKED,
    configuration,
)
from slotwise.live.enroll.passwords import hashed, new_password, password_file

Signer = Callable[[], Authority]  # asked only where something is to be signed: its key may be elsewhere
Contents = Mapping[str, bytes | str]


@dataclass(frozen=True)
class Files:
    """Some files by name: for everybody, and for their owner's eyes only."""

    public: Contents = field(default_factory=dict)
    secret: Contents = field(default_factory=dict)


def new_client(name: str, enrolment: Enrolment, signer: Signer) -> tuple[str, Files]:
    """A proof that a client is ``name``: what is kept of it, and the files that the client is given."""
    words = {"broker": enrolment.address, "name": enrolment.name, "ca": AUTHORITY}
    if not enrolment.by_certificate:
        password = new_password()
        text = _toml({**words, "user": name, "password": password})
        return hashed(password), Files(secret={f"{name}.toml": text})
    pair = signer().for_client(name)
    text = _toml({**words, "certificate": f"{name}.crt", "key": f"{name}.key"})
    secret: Contents = {f"{name}.toml": text, f"{name}.key": pair.key}
    return f"{pair.serial:x}", Files({f"{name}.crt": pair.certificate}, secret)


def client_files(name: str) -> list[str]:
    """The names of all files that a client may have been given."""
    return [f"{name}.{ending}" for ending in ("toml", "crt", "key")]


def broker_files(enrolment: Enrolment, authority: Authority) -> Files:
    """What a broker is given once."""
    pair = authority.for_broker([host_of(host) for host in enrolment.hosts])
    public: Contents = {
        CONFIGURATION: configuration(enrolment),
        AUTHORITY: authority.certificate_pem(),
        CERTIFICATE: pair.certificate,
    }
    return Files(public, {KEY: pair.key})


def access_files(enrolment: Enrolment, signer: Signer) -> Files:
    """What a broker is given anew whenever somebody is let in or shut out."""
    access = {ACCESS: access_file(enrolment.topics, enrolment.devices)}
    if enrolment.by_certificate:
        serials = [int(serial, 16) for serial in enrolment.revoked]
        return Files({**access, REVOKED: signer().revocation_list(serials)})
    users = {device_user(number): proof for number, proof in enrolment.devices.items()}
    return Files(access, {PASSWORDS: password_file({SERVER: enrolment.server, **users})})


def _toml(words: Mapping[str, str]) -> str:
    """TOML of plain words; text in quotes is the same there as in JSON."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in words.items())
