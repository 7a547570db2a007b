"""The commands enroll, calibrate and rollout: before a live run, after it, and beside it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from slotwise.base.errors import MissingError
from slotwise.base.extras import require
from slotwise.base.files import json_text
from slotwise.cli.app import SOME_FAILED
from slotwise.cli.flags import AsJson, Flag, command, flags_of, output, panel, refuse_with, whole_numbers
from slotwise.live.calibration import Calibration, CalibrationConfig, check_fleet_file
from slotwise.live.calibration import calibrate as measure
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.rollout import Rollout, RolloutOptions, newest_status
from slotwise.options.checks import whole
from slotwise.options.option_text import field_help
from slotwise.report.number_text import percent
from slotwise.report.tables import table_console
from slotwise.runs import RunConfig

NEW, CHANGE = panel("New enrolment"), panel("Changes")
LOGIN = "Clients log in with certificates or with passwords (the default)."
UDP = "Devices talk to the server over UDP, without a broker, each with a key of its own."
REVOKE = (
    "Revoke a device. May be repeated, and combined with --add, which gives its number to the next device."
)
ENROLMENT_FLAGS = (
    Flag("devices", int, "How many devices, numbered from 1.", NEW),
    *flags_of(Enrolment, NEW, only=["port", "name", "largest_model", "days"]),
    Flag("add", int, "Add devices; nothing changes for the others.", CHANGE),
    Flag("renew", int, "Renew the certificates that end within so many days, and no others.", CHANGE),
)


@command(*ENROLMENT_FLAGS)
def enroll(
    options: dict[str, Any],
    folder: Annotated[Path, Parameter(help="Folder of the enrolment: created, or changed.")],
    /,
    *,
    host: Annotated[list[str] | None, Parameter(help=field_help(Enrolment)["hosts"], group=NEW)] = None,
    certificates: Annotated[bool | None, Parameter(negative="--passwords", help=LOGIN, group=NEW)] = None,
    udp: Annotated[bool, Parameter(help=UDP, group=NEW)] = False,
    revoke: Annotated[list[int] | None, Parameter(help=REVOKE, group=CHANGE, converter=whole_numbers)] = None,
) -> None:
    """Write the logins of a server and its devices: for a mosquitto broker with TLS, or for UDP.

    FOLDER/broker is for the broker; server.toml and device-7.toml are for --credentials of serve and device.
    With --udp there is no broker: keys.toml is for the server.
    Device 7 can then publish as device 7 only, and read only what is meant for it.
    """
    require("cryptography")
    add, renew = options.pop("add", None), options.pop("renew", None)
    given = {"certificates": None if certificates is None else "given", "udp": "given" if udp else None}
    if renew is not None:
        refuse_with("renew", {**options, "host": host, "add": add, "revoke": revoke, **given})
        _renew(folder, whole("renew", renew))
        return
    if add is None and not revoke:
        if udp:
            for_broker = {name: options.get(name) for name in ("largest_model", "days")}
            refuse_with("udp", {**for_broker, "certificates": certificates})
        _create(folder, {**options, "hosts": host or [], "by_certificate": bool(certificates), "udp": udp})
        return
    refuse_with("revoke" if add is None else "add", {**options, "host": host, **given})
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
    if enrolment.udp:
        print(f"{folder}: {_counted(devices)}, server at {enrolment.address}, keys")
    else:
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
    if enrolment.udp:
        print(f"{folder}: {_counted(len(enrolment.devices))}")
        print("this takes effect when the server is started again with keys.toml (slotwise serve --resume)")
        return
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


def _renew(folder: Path, within: int) -> None:
    from slotwise.live.enroll.enrolment_folder import BROKER, renew_certificates  # noqa: PLC0415

    enrolment, owners, end = renew_certificates(folder, within)
    for owner in owners:
        print(f"renewed: {owner}, until {enrolment.last_day(owner)}")
    where = shlex.quote(str(folder))
    if BROKER in owners:
        print(f"copy broker.crt and broker.key in {where}/broker to the broker, and send mosquitto SIGHUP")
    if clients := [owner for owner in owners if owner != BROKER]:
        print(f"copy {clients[0]}.crt and {clients[0]}.key in {where}, and so on, to their machines")
    if not owners:
        print(f"{folder}: no certificate ends within {within} day{'s' * (within != 1)}")
    if end <= datetime.now(UTC) + timedelta(days=within):
        print(f"the authority itself ends on {end:%Y-%m-%d}: enroll all anew before", file=sys.stderr)


def _counted(devices: int) -> str:
    return f"{devices} device{'s' * (devices != 1)}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"device-{number}" for number in numbers)


CALIBRATION_FLAGS = flags_of(CalibrationConfig, panel("Measurement"))


@command(*CALIBRATION_FLAGS)
def calibrate(
    options: dict[str, Any],
    run: Annotated[Path, Parameter(help="Folder of a live run.")],
    /,
    *,
    out: Annotated[Path | None, output("Write the fleet: FILE.csv, and FILE.toml next to it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the devices of a live run: turn how long they took into a fleet to plan the next run with.

    FILE.csv has compute and link slots of each device (--fleet-file); FILE.toml has all measured options
    (--config).
    """
    if out is not None:
        check_fleet_file(out)
    found = measure(run, **options)
    settings = None if out is None else found.write(out)
    if as_json:
        print(json_text(asdict(found)))
        return
    table_console().print(calibration_table(found))
    print(f"a slot has {found.slot_ms:g} ms; a broadcast takes {found.broadcast_slots}", end="")
    print(f"; {percent(found.uplink_loss, 1)} of the uplinks were lost")
    if found.unmeasured:
        numbers = ", ".join(map(str, found.unmeasured))
        print(f"no measurements of device {numbers}: the median of the others is used", file=sys.stderr)
    if out is not None and settings is not None:
        print(f"{out} and {settings} are written; plan with them:")
        loss = f" --uplink-loss {found.uplink_loss:g}" if found.uplink_loss else ""
        print(
            f"  slotwise plan --fleet-file {shlex.quote(str(out))} --link-slots {found.broadcast_slots}{loss}"
        )
        print(f"  slotwise train --config {shlex.quote(str(settings))} ...  (also slotwise recommend)")


def calibration_table(found: Calibration) -> Table:
    """Return a row for each device."""
    table = Table(box=None, pad_edge=False)
    for heading in ("device", "turns", "lost", "training ms", "slots", "uplink ms", "slots"):
        table.add_column(heading, justify="right")
    rows = zip(found.devices, found.compute_slots, found.link_slots, strict=True)
    for one, compute, link in rows:
        counts = (str(one.device), str(one.turns), str(one.lost))
        trained, sent = _milliseconds(one.compute_seconds), _milliseconds(one.uplink_seconds)
        table.add_row(*counts, trained, str(compute), sent, str(link))
    return table


def _milliseconds(seconds: float) -> str:
    return "–" if isnan(seconds) else f"{1000 * seconds:.1f}"


@command(*flags_of(RolloutOptions, panel("Upgrade")))
def rollout(
    options: dict[str, Any],
    run: Annotated[Path, Parameter(help="Folder of the live run that is played, or of the campaign.")],
    /,
) -> int:
    """Upgrade the devices of a live run: some first, which are watched, then the others.

    A device is upgraded when it reports the version and has delivered an update. If one fails, all that
    were upgraded are brought back. Devices that have the version already, or are absent, are left out.
    """
    for name in ("to_version", "upgrade", "back"):
        if name not in options:
            raise MissingError(name, field_help(RolloutOptions)[name].rstrip("."))
    chosen = RolloutOptions(**options)

    def call(shell_command: str, device: int) -> bool:
        return (
            subprocess.run(shell_command.replace("{device}", str(device)), shell=True, check=False).returncode
            == 0
        )

    def notice(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    return 0 if Rollout(chosen, lambda: newest_status(run), call, notice).run() else SOME_FAILED
