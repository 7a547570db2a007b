"""The folder of an enrolment: created as a whole, changed in an order in which a crash does no harm.

- ``enrolment.json``: the enrolment; written last.
- ``authority/ca.key``: signs certificates; stays here.
- ``broker/``: for the broker, to be copied as a whole.
- ``ca.crt``: for everyone.
- ``server.toml``: for the server, with ``server.crt`` and ``server.key`` if it has a certificate.
- ``device-1.toml`` and so on: for the devices, likewise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slotwise.errors import InputError, UserError
from slotwise.files import held, leftovers, new_folder, write_atomically
from slotwise.live.enroll.authority import Authority
from slotwise.live.enroll.enrolment import (
    SERVER,
    Enrolment,
    access_file,
    broker_configuration,
    device_user,
    hash_password,
    new_password,
    parse_host,
    password_file,
)
from slotwise.live.protocol.topics import Topics

STATE, CA_CERTIFICATE, CA_KEY = "enrolment.json", "ca.crt", "ca.key"
Signer = Callable[[], Authority]  # called only to sign something: the key may be kept elsewhere
Contents = Mapping[str, bytes | str]


@dataclass(frozen=True)
class Files:
    """Files by name: public ones, and secret ones that only their owner may read."""

    public: Contents = field(default_factory=dict)
    secret: Contents = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write all files into a folder."""
        for name, content in self.public.items():
            write_atomically(folder / name, content)
        for name, content in self.secret.items():
            write_atomically(folder / name, content, private=True)


def check_new(path: Path) -> None:
    """Refuse a path that exists, or where no folder can be made."""
    if _is_enrolment(path):
        raise UserError(f"{path}: has an enrolment already; change it with --add or --revoke")
    if os.path.lexists(path):
        raise UserError(f"{path}: exists already; give the name of a new folder")
    if not path.absolute().parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.absolute().parent}")


def create_enrolment(path: Path, enrolment: Enrolment, devices: int) -> Enrolment:
    """Write the folder of a new enrolment with ``devices`` devices, all of it or nothing."""
    check_new(path)
    with new_folder(path) as building:
        return _Folder(building).create(enrolment, devices)


def change_enrolment(path: Path, *, revoke: Iterable[int] = (), add: int = 0) -> tuple[Enrolment, list[int]]:
    """Revoke devices, then add others; return the new enrolment and the numbers of the added devices."""
    if not _is_enrolment(path):
        raise UserError(f"{path}: not an enrolment (no {STATE}); --devices and --host create one")
    with held(path, "another process is changing it"):
        return _Folder(path).change(sorted(set(revoke)), add)


def _is_enrolment(path: Path) -> bool:
    try:
        return (path / STATE).is_file()
    except OSError as error:  # a name too long, a folder without permission
        raise UserError(f"{path}: {error.strerror}") from None


def _client_login(name: str, enrolment: Enrolment, signer: Signer) -> tuple[str, Files]:
    """Make a login: what the enrolment keeps of it, and the files of the client."""
    common = {"broker": enrolment.address, "name": enrolment.name, "ca": CA_CERTIFICATE}
    if not enrolment.by_certificate:
        password = new_password()
        text = _toml({**common, "user": name, "password": password})
        return hash_password(password), Files(secret={f"{name}.toml": text})
    pair = signer().for_client(name)
    text = _toml({**common, "certificate": f"{name}.crt", "key": f"{name}.key"})
    secret: Contents = {f"{name}.toml": text, f"{name}.key": pair.key}
    return f"{pair.serial:x}", Files({f"{name}.crt": pair.certificate}, secret)


def _broker_files(enrolment: Enrolment, authority: Authority) -> Files:
    """Return the files that a broker is given once."""
    pair = authority.for_broker([parse_host(host) for host in enrolment.hosts])
    public: Contents = {
        "mosquitto.conf": broker_configuration(enrolment),
        CA_CERTIFICATE: authority.certificate_pem(),
        "broker.crt": pair.certificate,
    }
    return Files(public, {"broker.key": pair.key})


def _access_files(enrolment: Enrolment, signer: Signer) -> Files:
    """Return the files that a broker is given again whenever devices are added or revoked."""
    access = {"access": access_file(Topics(enrolment.name), enrolment.devices)}
    if enrolment.by_certificate:
        serials = [int(serial, 16) for serial in enrolment.revoked]
        return Files({**access, "revoked.crl": signer().revocation_list(serials)})
    users = {device_user(number): hashed for number, hashed in enrolment.devices.items()}
    return Files(access, {"passwords": password_file({SERVER: enrolment.server, **users})})


def _toml(table: Mapping[str, str]) -> str:
    """Return TOML; its quoted text is the same as JSON's."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())


@dataclass(frozen=True)
class _Folder:
    path: Path

    @property
    def broker(self) -> Path:
        return self.path / "broker"

    @property
    def authority(self) -> Path:
        return self.path / "authority"

    def create(self, enrolment: Enrolment, devices: int) -> Enrolment:
        """Write everything into an empty folder."""
        authority = Authority.make(enrolment.name, enrolment.days)
        for folder in (self.broker, self.authority):
            folder.mkdir(mode=0o700)
        Files(secret={CA_KEY: authority.key_pem()}).write(self.authority)
        Files({CA_CERTIFICATE: authority.certificate_pem()}).write(self.path)
        _broker_files(enrolment, authority).write(self.broker)
        enrolled = replace(enrolment, server=self._add_client(SERVER, enrolment, lambda: authority))
        return self._add(enrolled, enrolled.free_numbers(devices), lambda: authority)

    def change(self, revoked: Sequence[int], added: int) -> tuple[Enrolment, list[int]]:
        """Revoke and add. After a crash the same call completes it: the state is written last."""
        left = _without(self._read(), revoked)
        numbers = left.free_numbers(added)
        for temporary in (*leftovers(self.path), *leftovers(self.broker)):
            temporary.unlink(missing_ok=True)
        enrolment = self._add(left, numbers, self._signer)
        for number in set(revoked) - set(numbers):
            for ending in ("toml", "crt", "key"):
                (self.path / f"{device_user(number)}.{ending}").unlink(missing_ok=True)
        return enrolment, numbers

    def _add(self, enrolment: Enrolment, numbers: Sequence[int], signer: Signer) -> Enrolment:
        """Write the logins of new devices, then the files of the broker, then the state."""
        logins = {number: self._add_client(device_user(number), enrolment, signer) for number in numbers}
        enrolled = replace(enrolment, devices=dict(sorted({**enrolment.devices, **logins}.items())))
        _access_files(enrolled, signer).write(self.broker)
        Files(secret={STATE: enrolled.to_json()}).write(self.path)
        return enrolled

    def _add_client(self, name: str, enrolment: Enrolment, signer: Signer) -> str:
        login, files = _client_login(name, enrolment, signer)
        files.write(self.path)
        return login

    def _read(self) -> Enrolment:
        state = self.path / STATE
        try:
            return Enrolment.from_json(state.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{state}: {error.strerror}") from None
        except ValueError as error:
            raise UserError(f"{state}: damaged ({error})") from None

    def _signer(self) -> Authority:
        certificate, key = self.path / CA_CERTIFICATE, self.authority / CA_KEY
        try:
            return Authority.read(certificate.read_bytes(), key.read_bytes())
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}: needed to sign certificates") from None
        except (ValueError, TypeError):
            raise UserError(f"{key}: damaged: must be the key of {certificate}") from None


def _without(enrolment: Enrolment, revoked: Sequence[int]) -> Enrolment:
    for number in revoked:
        if number not in enrolment.devices:
            allowed = f"the number of an enrolled device: {_ranges(enrolment)}"
            raise InputError("revoke", number, allowed)
    kept = {number: login for number, login in enrolment.devices.items() if number not in revoked}
    serials = [enrolment.devices[number] for number in revoked] if enrolment.by_certificate else []
    return replace(enrolment, devices=kept, revoked=[*enrolment.revoked, *serials])


def _ranges(enrolment: Enrolment) -> str:
    """Return the numbers of the devices as ``1 to 6, 8 to 20``."""
    numbers = enrolment.devices
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)) or "none"
