"""The command slotwise calibrate."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from slotwise.cli.flags import AsJson, command, flags_of, output, panel
from slotwise.files import json_text
from slotwise.live.calibration import Calibration, CalibrationConfig, check_fleet_file
from slotwise.live.calibration import calibrate as measure
from slotwise.report.percent import percent
from slotwise.report.tables import table_console

FLAGS = flags_of(CalibrationConfig, panel("Measurement"))


@command(*FLAGS)
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
