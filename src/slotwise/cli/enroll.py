"""slotwise enroll."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.errors import InputError, UserError
from slotwise.runs import RunConfig
from slotwise.scenario import whole

if TYPE_CHECKING:
    from slotwise.live.enroll.enrolment import Enrolment

NEW = "A new enrolment"
LATER = "Later"


def enroll(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the enrolment: created, or changed.")
    ],
    devices: Annotated[
        int | None, typer.Option(help="How many devices, numbered from 1.", rich_help_panel=NEW)
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or address of the broker, as devices reach it. May be given several times; the first "
            "is written into the credentials.",
            rich_help_panel=NEW,
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port of the broker. Default: 8883.", rich_help_panel=NEW)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the channel on the broker. Default: trial.", rich_help_panel=NEW),
    ] = None,
    by_certificate: Annotated[
        bool | None,
        typer.Option(
            "--certificates/--passwords",
            help="How clients prove who they are. Default: passwords.",
            show_default=False,
            rich_help_panel=NEW,
        ),
    ] = None,
    largest_model: Annotated[
        int | None,
        typer.Option(
            help="Numbers of the largest model; the broker takes no larger messages. Default: 1000000.",
            rich_help_panel=NEW,
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Certificates are valid so long. Default: 3650.", rich_help_panel=NEW)
    ] = None,
    add: Annotated[
        int | None,
        typer.Option(help="Let so many more devices in; nothing changes for others.", rich_help_panel=LATER),
    ] = None,
    revoke: Annotated[
        list[int] | None,
        typer.Option(
            help="Shut a device out. May be given several times, and with --add: its number is then given to "
            "the next device.",
            rich_help_panel=LATER,
        ),
    ] = None,
) -> None:
    """Write keys, passwords and access rules for a mosquitto broker with TLS, its server and its devices.

    DIR/broker is for the broker, server.toml and device-7.toml are for --credentials of serve and device.
    Device 7 can then speak as device 7 only, and read only what is meant for it.
    """
    if find_spec("cryptography") is None:
        raise UserError("cryptography is not installed: pip install 'slotwise[mqtt]'")
    given = {
        key: value
        for key, value in {
            "devices": devices,
            "host": host or None,
            "port": port,
            "name": name,
            "certificates": by_certificate,
            "largest_model": largest_model,
            "days": days,
        }.items()
        if value is not None
    }
    if add is not None or revoke:
        _change(folder, given, add, revoke or [])
    else:
        _create(folder, given)


def _create(folder: Path, given: dict[str, Any]) -> None:
    from slotwise.live.enroll.enrolment import Enrolment  # noqa: PLC0415
    from slotwise.live.enroll.folder import check_new, create  # noqa: PLC0415

    check_new(folder)
    if "devices" not in given:
        raise InputError("devices", "missing", "the number of devices")
    count = whole("devices", given.pop("devices"))
    hosts, by_certificate = given.pop("host", []), given.pop("certificates", False)
    enrolment = create(folder, Enrolment(hosts=hosts, by_certificate=by_certificate, **given), count)
    proof = "certificates" if enrolment.by_certificate else "passwords"
    typer.echo(f"{folder}: {_counted(count)}, broker at {enrolment.address}, {proof}")
    for line in _next_steps(folder, enrolment):
        typer.echo(line)


def _next_steps(folder: Path, enrolment: Enrolment) -> list[str]:
    where, count = shlex.quote(str(folder)), len(enrolment.devices)
    group = " --group-size 1" if count < RunConfig().channel.group_size else ""  # no larger than the fleet
    return [
        f"broker:  cd {where}/broker && mosquitto -c mosquitto.conf",
        f"server:  slotwise serve --credentials {where}/server.toml --devices {count}{group} --out RUN",
        f"device:  slotwise device --id 1 --credentials {where}/device-1.toml",
    ]


def _change(folder: Path, given: dict[str, Any], add: int | None, revoke: Sequence[int]) -> None:
    from slotwise.live.enroll.folder import change  # noqa: PLC0415

    for option in given:
        raise InputError(option, "given", "left out with --add and --revoke: an enrolment keeps it")
    added = 0 if add is None else whole("add", add)
    enrolment, numbers = change(folder, revoke, added)
    if revoke:
        typer.echo(f"revoked: {_listed(sorted(set(revoke)))}")
    if numbers:
        typer.echo(f"added: {_listed(numbers)}")
    typer.echo(f"{folder}: {_counted(len(enrolment.devices))}")
    for line in _how_it_counts(folder, enrolment, set(revoke) & set(numbers)):
        typer.echo(line)


def _how_it_counts(folder: Path, enrolment: Enrolment, replaced: set[int]) -> list[str]:
    changed = "access and revoked.crl" if enrolment.by_certificate else "access and passwords"
    lines = [
        f"this counts when mosquitto reads {changed} of {shlex.quote(str(folder))}/broker again: "
        "send it SIGHUP, after copying them if it is on another machine"
    ]
    if enrolment.by_certificate and replaced:
        # It asks for certificates when a connection is made, and the access rules are the new device's too.
        who = _listed(sorted(replaced))
        lines.append(f"restart it instead if the old {who} may be connected: that would outlive a SIGHUP")
    return lines


def _counted(devices: int) -> str:
    return f"{devices} device{'s' * (devices != 1)}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"device-{number}" for number in numbers)
