"""The folder of an enrolment: written whole, changed in an order in which a crash does no harm.

- ``enrolment.json``: who is let in; written last.
- ``authority/ca.key``: signs certificates; stays here.
- ``broker/``: for the broker, to be copied as a whole.
- ``ca.crt``: for everybody.
- ``server.toml``: for the server, with ``server.crt`` and ``server.key`` if it has a certificate.
- ``device-1.toml`` and so on: for the devices, likewise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slotwise.errors import InputError, UserError
from slotwise.files import held, leftovers, new_folder, write_atomically
from slotwise.live.enroll.access import SERVER, device_user
from slotwise.live.enroll.authority import Authority
from slotwise.live.enroll.enrolment import Enrolment, enrolment_of
from slotwise.live.enroll.files import Files, Signer, access_files, broker_files, client_files, new_client
from slotwise.live.enroll.mosquitto import AUTHORITY

STATE = "enrolment.json"
AUTHORITY_KEY = "ca.key"


def check_new(path: Path) -> None:
    """Refuse a path at which there is something, or where no folder can be made."""
    if _is_enrolment(path):
        raise UserError(f"{path}: an enrolment is there already; change it with --add or --revoke")
    if os.path.lexists(path):
        raise UserError(f"{path}: is there already; give the name of a new folder")
    if not path.absolute().parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.absolute().parent}")


def create(path: Path, enrolment: Enrolment, devices: int) -> Enrolment:
    """Write the folder of a new enrolment, all of it or nothing."""
    check_new(path)
    with new_folder(path) as building:
        return _Folder(building).begin(enrolment, devices)


def change(path: Path, revoked: Iterable[int], added: int) -> tuple[Enrolment, list[int]]:
    """Shut devices out, then let others in: the enrolment now, and the numbers of the new ones."""
    if not _is_enrolment(path):
        raise UserError(f"{path}: no enrolment (no {STATE} there); --devices and --host make one")
    with held(path, "another process is changing it"):
        return _Folder(path).change(sorted(set(revoked)), added)


def _is_enrolment(path: Path) -> bool:
    try:
        return (path / STATE).is_file()
    except OSError as error:  # a name too long, a folder that cannot be entered
        raise UserError(f"{path}: {error.strerror}") from None


@dataclass(frozen=True)
class _Folder:
    path: Path

    @property
    def broker(self) -> Path:
        return self.path / "broker"

    @property
    def authority(self) -> Path:
        return self.path / "authority"

    def begin(self, enrolment: Enrolment, devices: int) -> Enrolment:
        """Everything, in an empty folder."""
        authority = Authority.make(enrolment.name, enrolment.days)
        for folder in (self.broker, self.authority):
            folder.mkdir(mode=0o700)
        _write(self.authority, Files(secret={AUTHORITY_KEY: authority.key_pem()}))
        _write(self.path, Files({AUTHORITY: authority.certificate_pem()}))
        _write(self.broker, broker_files(enrolment, authority))
        enrolled = replace(enrolment, server=self._let_in(SERVER, enrolment, lambda: authority))
        return self._add(enrolled, enrolled.free_numbers(devices), lambda: authority)

    def change(self, revoked: Sequence[int], added: int) -> tuple[Enrolment, list[int]]:
        """Whatever a crash leaves undone, the same command does: the state is written when all else is."""
        left = _without(self._read(), revoked)
        numbers = left.free_numbers(added)
        for rubbish in (*leftovers(self.path), *leftovers(self.broker)):
            rubbish.unlink(missing_ok=True)
        enrolment = self._add(left, numbers, self._signer)
        for number in set(revoked) - set(numbers):
            for name in client_files(device_user(number)):
                (self.path / name).unlink(missing_ok=True)
        return enrolment, numbers

    def _add(self, enrolment: Enrolment, numbers: Sequence[int], signer: Signer) -> Enrolment:
        """The secrets of new devices, then what the broker reads, then the state."""
        proofs = {number: self._let_in(device_user(number), enrolment, signer) for number in numbers}
        devices = dict(sorted({**enrolment.devices, **proofs}.items()))
        enrolled = replace(enrolment, devices=devices)
        _write(self.broker, access_files(enrolled, signer))
        _write(self.path, Files(secret={STATE: enrolled.to_json()}))
        return enrolled

    def _let_in(self, name: str, enrolment: Enrolment, signer: Signer) -> str:
        """Give a client what it proves itself with; what is kept of that."""
        proof, files = new_client(name, enrolment, signer)
        _write(self.path, files)
        return proof

    def _read(self) -> Enrolment:
        state = self.path / STATE
        try:
            return enrolment_of(state.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{state}: {error.strerror}") from None
        except ValueError as error:
            raise UserError(f"{state}: damaged ({error})") from None

    def _signer(self) -> Authority:
        certificate, key = self.path / AUTHORITY, self.authority / AUTHORITY_KEY
        try:
            return Authority.read(certificate.read_bytes(), key.read_bytes())
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}: needed to sign certificates") from None
        except (ValueError, TypeError):
            raise UserError(f"{key}: damaged: must be the key of {certificate}") from None


def _write(folder: Path, files: Files) -> None:
    for name, content in files.public.items():
        write_atomically(folder / name, content)
    for name, content in files.secret.items():
        write_atomically(folder / name, content, private=True)


def _without(enrolment: Enrolment, revoked: Sequence[int]) -> Enrolment:
    for number in revoked:
        if number not in enrolment.devices:
            allowed = f"the number of an enrolled device: {_ranges(enrolment)}"
            raise InputError("revoke", number, allowed)
    kept = {number: proof for number, proof in enrolment.devices.items() if number not in revoked}
    serials = [enrolment.devices[number] for number in revoked] if enrolment.by_certificate else []
    return replace(enrolment, devices=kept, revoked=[*enrolment.revoked, *serials])


def _ranges(enrolment: Enrolment) -> str:
    """``1 to 6, 8 to 20``."""
    numbers = enrolment.devices
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)) or "none"
