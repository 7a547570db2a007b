"""The command slotwise enroll."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.cli.flags import Flag, command, flags_of, panel, refuse_with, whole_numbers
from slotwise.errors import MissingError
from slotwise.extras import require
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.option_text import field_help
from slotwise.runs import RunConfig
from slotwise.scenario import whole

NEW, CHANGE = panel("New enrolment"), panel("Changes")
LOGIN = "Clients log in with certificates or with passwords (the default)."
REVOKE = (
    "Revoke a device. May be repeated, and combined with --add, which gives its number to the next device."
)
FLAGS = (
    Flag("devices", int, "How many devices, numbered from 1.", NEW),
    *flags_of(Enrolment, NEW, only=["port", "name", "largest_model", "days"]),
    Flag("add", int, "Add devices; nothing changes for the others.", CHANGE),
)


@command(*FLAGS)
def enroll(
    options: dict[str, Any],
    folder: Annotated[Path, Parameter(help="Folder of the enrolment: created, or changed.")],
    /,
    *,
    host: Annotated[list[str] | None, Parameter(help=field_help(Enrolment)["hosts"], group=NEW)] = None,
    certificates: Annotated[bool | None, Parameter(negative="--passwords", help=LOGIN, group=NEW)] = None,
    revoke: Annotated[list[int] | None, Parameter(help=REVOKE, group=CHANGE, converter=whole_numbers)] = None,
) -> None:
    """Write keys, passwords and access rules for a mosquitto broker with TLS, its server and its devices.

    FOLDER/broker is for the broker; server.toml and device-7.toml are for --credentials of serve and device.
    Device 7 can then publish as device 7 only, and read only what is meant for it.
    """
    require("cryptography")
    add = options.pop("add", None)
    if add is None and not revoke:
        _create(folder, {**options, "hosts": host or [], "by_certificate": bool(certificates)})
        return
    login = None if certificates is None else "given"
    refuse_with("revoke" if add is None else "add", {**options, "host": host, "certificates": login})
    _change(folder, 0 if add is None else whole("add", add), revoke or [])


def _create(folder: Path, options: dict[str, Any]) -> None:
    from slotwise.live.enroll.enrolment_folder import check_new, create_enrolment  # noqa: PLC0415

    check_new(folder)
    if "devices" not in options:
        raise MissingError("devices", "the number of devices")
    devices = whole("devices", options.pop("devices"))
    enrolment = create_enrolment(folder, Enrolment(**options), devices)
    where, login = shlex.quote(str(folder)), "certificates" if enrolment.by_certificate else "passwords"
    group = " --group-size 1" if devices < RunConfig().channel.group_size else ""  # at most the fleet
    print(f"{folder}: {_counted(devices)}, broker at {enrolment.address}, {login}")
    print(f"broker:  cd {where}/broker && mosquitto -c mosquitto.conf")
    print(f"server:  slotwise serve --credentials {where}/server.toml --devices {devices}{group} --out RUN")
    print(f"device:  slotwise device --id 1 --credentials {where}/device-1.toml")


def _change(folder: Path, add: int, revoke: Sequence[int]) -> None:
    from slotwise.live.enroll.enrolment_folder import change_enrolment  # noqa: PLC0415

    enrolment, numbers = change_enrolment(folder, revoke=revoke, add=add)
    if revoke:
        print(f"revoked: {_listed(sorted(set(revoke)))}")
    if numbers:
        print(f"added: {_listed(numbers)}")
    files = "access and revoked.crl" if enrolment.by_certificate else "access and passwords"
    print(f"{folder}: {_counted(len(enrolment.devices))}")
    print(
        f"this takes effect when mosquitto reloads {files} in {shlex.quote(str(folder))}/broker: "
        "send it SIGHUP, after copying them if it is on another machine"
    )
    replaced = sorted(set(revoke) & set(numbers))
    if enrolment.by_certificate and replaced:
        # It checks certificates only when a connection is made, and the new device has the same access rules.
        old = _listed(replaced)
        print(f"restart it instead if the old {old} may be connected: a SIGHUP does not end its connection")


def _counted(devices: int) -> str:
    return f"{devices} device{'s' * (devices != 1)}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"device-{number}" for number in numbers)
