"""The folder of an enrolment: created as a whole, changed in an order in which a crash does no harm.

- ``enrolment.json``: the enrolment; written last.
- ``authority/ca.key``: signs certificates; stays here.
- ``broker/``: for the broker, to be copied as a whole.
- ``ca.crt``: for everyone.
- ``server.toml``: for the server, with ``server.crt`` and ``server.key`` if it has a certificate.
- ``device-1.toml`` and so on: for the devices, likewise.

Over UDP there are no broker, authority and certificates, but ``keys.toml``, the secrets of all devices, for
the server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import held, leftovers, new_folder, write_atomically
from slotwise.live.enroll.authority import Authority, Pair
from slotwise.live.enroll.enrolment import (
    SERVER,
    STATE,
    Enrolment,
    access_file,
    broker_configuration,
    device_user,
    hash_password,
    keys_file,
    new_password,
    new_secret,
    parse_host,
    password_file,
)
from slotwise.live.protocol import Topics

BROKER = "broker"  # the owner of its certificate
CA_CERTIFICATE, CA_KEY, KEYS = "ca.crt", "ca.key", "keys.toml"
Signer = Callable[[], Authority]  # called only to sign something: the key may be kept elsewhere
Contents = Mapping[str, bytes | str]
Issued = Mapping[str, tuple[str, str]]  # owner and last day of certificates by serial number


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
        if enrolment.udp:
            enrolled = replace(enrolment, server=_add_udp_client(building, SERVER, enrolment))
            return _add(building, enrolled, enrolled.free_numbers(devices), _no_signer)
        authority = Authority.make(enrolment.name, enrolment.days)
        certificate = authority.certificate_pem()
        for name in ("broker", "authority"):
            (building / name).mkdir(mode=0o700)
        _write(building / "authority", secret={CA_KEY: authority.key_pem()})
        _write(building, {CA_CERTIFICATE: certificate})
        public: Contents = {
            "mosquitto.conf": broker_configuration(enrolment),
            CA_CERTIFICATE: certificate,
        }
        _write(building / "broker", public)
        issued = _add_broker_certificate(building, enrolment, authority)
        server, entry = _add_client(building, SERVER, enrolment, lambda: authority)
        enrolled = replace(enrolment, server=server, issued={**issued, **entry})
        return _add(building, enrolled, enrolled.free_numbers(devices), lambda: authority)


def change_enrolment(path: Path, *, revoke: Iterable[int] = (), add: int = 0) -> tuple[Enrolment, list[int]]:
    """Revoke devices, then add others; return the new enrolment and the numbers of the added devices.

    The state is written after logins and the broker's files. After a crash before that, the same call makes
    the change. After a crash later, the change is made and must not be repeated: the same call would add
    further devices, or refuse to revoke those that are gone; only files of revoked devices may be left.
    """
    with _changing(path) as before:
        revoked = sorted(set(revoke))
        left = _without(before, revoked)
        numbers = left.free_numbers(add)
        enrolment = _add(path, left, numbers, lambda: _authority(path, before.days))
        # After the state: a crash that leaves these files does no harm, because the broker accepts them no
        # more. A number that was given to a new device has new files with the same names.
        for number in set(revoked) - set(numbers):
            for ending in ("toml", "crt", "key"):
                (path / f"{device_user(number)}.{ending}").unlink(missing_ok=True)
        return enrolment, numbers


def renew_certificates(path: Path, within: int) -> tuple[Enrolment, list[str], datetime]:
    """Replace the certificates that end within so many days; return whose, and when the authority ends.

    An earlier certificate remains valid until its own end, so that the new one can be brought to its device
    meanwhile.
    """
    with _changing(path) as enrolment:
        if enrolment.udp:
            raise InputError("renew", within, "omitted: there are no certificates over UDP")
        authority = _authority(path, enrolment.days)
        last = datetime.now(UTC).date() + timedelta(days=within)
        clients = [SERVER, *map(device_user, enrolment.devices)] if enrolment.by_certificate else []
        # Of an enrolment of an earlier build all certificates end with the authority.
        ends = {owner: enrolment.last_day(owner) or authority.end.date() for owner in (BROKER, *clients)}
        owners = [owner for owner, end in ends.items() if end <= last]
        issued, logins = dict(enrolment.issued), {}
        for owner in owners:
            if owner == BROKER:
                entry = _add_broker_certificate(path, enrolment, authority)
            else:
                logins[owner], entry = _add_client(path, owner, enrolment, lambda: authority)
            issued |= entry
        devices = {n: logins.get(device_user(n), login) for n, login in enrolment.devices.items()}
        server = logins.get(SERVER, enrolment.server)
        renewed = replace(enrolment, issued=issued, server=server, devices=devices)
        _write(path, secret={STATE: renewed.to_json()})
        return renewed, owners, authority.end


@contextmanager
def _changing(path: Path) -> Iterator[Enrolment]:
    """Lock an enrolment against other processes, and yield it without certificates that have ended."""
    if not _is_enrolment(path):
        raise UserError(f"{path}: not an enrolment (no {STATE}); --devices and --host create one")
    with held(path, "another process is changing it"):
        # The lock is held, so these are files of a process that was killed.
        for temporary in (*leftovers(path), *leftovers(path / "broker")):
            temporary.unlink(missing_ok=True)
        yield _read(path / STATE).without_ended(datetime.now(UTC).date())


def _authority(path: Path, days: int) -> Authority:
    certificate, key = path / CA_CERTIFICATE, path / "authority" / CA_KEY
    try:
        return Authority.read(certificate.read_bytes(), key.read_bytes(), days)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}: needed to sign certificates") from None
    except (ValueError, TypeError):
        raise UserError(f"{key}: damaged: must be the key of {certificate}") from None


def _is_enrolment(path: Path) -> bool:
    try:
        return (path / STATE).is_file()
    except OSError as error:  # a name too long, a folder without permission
        raise UserError(f"{path}: {error.strerror}") from None


def _read(state: Path) -> Enrolment:
    try:
        return Enrolment.from_json(state.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{state}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{state}: damaged ({error})") from None


def _without(enrolment: Enrolment, revoked: Sequence[int]) -> Enrolment:
    devices = enrolment.devices
    for number in revoked:
        if number not in devices:
            starts = [n for n in devices if n - 1 not in devices]
            ends = [n for n in devices if n + 1 not in devices]
            ranges = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)]
            allowed = f"the number of an enrolled device: {', '.join(ranges) or 'none'}"
            raise InputError("revoke", number, allowed)
    kept = {number: login for number, login in devices.items() if number not in revoked}
    serials: list[str] = []
    for number in revoked if enrolment.by_certificate else ():
        serials += dict.fromkeys([devices[number], *enrolment.serials_of(device_user(number))])
    # Certificates that were revoked before, when the number was another device's, are among them.
    return replace(enrolment, devices=kept, revoked=[*dict.fromkeys([*enrolment.revoked, *serials])])


def _add(folder: Path, enrolment: Enrolment, numbers: Sequence[int], signer: Signer) -> Enrolment:
    """Write the logins of new devices, then the files that a broker reads again, then the state."""
    # A crash before the state is written leaves logins whose numbers are free: the next call replaces them.
    logins, issued = {}, dict(enrolment.issued)
    for number in numbers:
        logins[number], entry = _add_client(folder, device_user(number), enrolment, signer)
        issued |= entry
    devices = dict(sorted({**enrolment.devices, **logins}.items()))
    enrolled = replace(enrolment, devices=devices, issued=issued)
    if enrolled.udp:
        _write(folder, secret={KEYS: keys_file(enrolled.devices), STATE: enrolled.to_json()})
        return enrolled
    access = {"access": access_file(Topics(enrolled.name), enrolled.devices)}
    if enrolled.by_certificate:
        revoked = signer().revocation_list([int(serial, 16) for serial in enrolled.revoked])
        _write(folder / "broker", {**access, "revoked.crl": revoked})
    else:
        users = {device_user(number): hashed for number, hashed in enrolled.devices.items()}
        passwords = password_file({SERVER: enrolled.server, **users})
        _write(folder / "broker", access, {"passwords": passwords})
    _write(folder, secret={STATE: enrolled.to_json()})
    return enrolled


def _add_client(folder: Path, name: str, enrolment: Enrolment, signer: Signer) -> tuple[str, Issued]:
    """Write the files of a client; return what the enrolment keeps of its login and its certificate."""
    if enrolment.udp:
        return _add_udp_client(folder, name, enrolment), {}
    table = {"broker": enrolment.address, "name": enrolment.name, "ca": CA_CERTIFICATE}
    public, secret = {}, {}
    issued: Issued = {}
    if enrolment.by_certificate:
        pair = signer().for_client(name)
        kept, issued = f"{pair.serial:x}", _issued(name, pair)
        table |= {"certificate": f"{name}.crt", "key": f"{name}.key"}
        public, secret = {f"{name}.crt": pair.certificate}, {f"{name}.key": pair.key}
    else:
        password = new_password()
        kept = hash_password(password)
        table |= {"user": name, "password": password}
    _write(folder, public, {f"{name}.toml": _toml(table), **secret})
    return kept, issued


def _add_broker_certificate(folder: Path, enrolment: Enrolment, authority: Authority) -> Issued:
    pair = authority.for_broker([parse_host(host) for host in enrolment.hosts])
    _write(folder / "broker", {"broker.crt": pair.certificate}, {"broker.key": pair.key})
    return _issued(BROKER, pair)


def _issued(owner: str, pair: Pair) -> Issued:
    return {f"{pair.serial:x}": (owner, f"{pair.end:%Y-%m-%d}")}


def _add_udp_client(folder: Path, name: str, enrolment: Enrolment) -> str:
    """Write the credentials of the server or of a device; return the secret of the device."""
    secret = "" if name == SERVER else new_secret()
    login = {"keys": KEYS} if name == SERVER else {"user": name, "secret": secret}
    _write(
        folder,
        secret={f"{name}.toml": _toml({"broker": enrolment.address, "name": enrolment.name, **login})},
    )
    return secret


def _toml(table: Mapping[str, str]) -> str:
    # The quoted text of TOML is the same as JSON's.
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def _no_signer() -> Authority:
    raise AssertionError("there are no certificates over UDP")


def _write(folder: Path, public: Contents | None = None, secret: Contents | None = None) -> None:
    """Write public files by name, and secret ones that only their owner may read."""
    for name, content in (public or {}).items():
        write_atomically(folder / name, content)
    for name, content in (secret or {}).items():
        write_atomically(folder / name, content, private=True)
