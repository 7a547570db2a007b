"""The commands slotwise device and slotwise fleet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import Parameter

from slotwise.base.errors import InputError
from slotwise.base.machine import available_cores, refuse_too_many_processes
from slotwise.base.observer import stop_on_signals
from slotwise.cli import app
from slotwise.cli.app import HOPELESS, INTERRUPTED, stderr_may_close
from slotwise.cli.flags import OUTPUT, PANELS, Flag, command, flags_of, panel, whole_number
from slotwise.live.device.device_host import DeviceConfig, Excluded, fleet_login, run_device, run_fleet
from slotwise.live.transport.broker import BrokerOptions
from slotwise.options.checks import option_names, whole

BROKER, DEVICES = panel("Broker"), panel("Devices")
FLAGS = (
    *flags_of(BrokerOptions, BROKER, only=["broker"]),
    *flags_of(DeviceConfig, BROKER, only=["name", "keepalive", "timeout"]),
    *flags_of(
        DeviceConfig, PANELS["dataset"], only=["data", "partition", "data_folder", "task", "local_step"]
    ),
)
LOGIN_FLAGS = flags_of(BrokerOptions, BROKER, only=["credentials", "user", "password_file", "ca"])
FLEET_FLAGS = (
    Flag("devices", int, "How many devices.", DEVICES, 20),
    Flag("first", int, "Number of the first one.", DEVICES, 1),
    Flag("processes", int, "Spread them over several processes.", DEVICES, 1),
    Flag("workers", int, "Parallel trainings. Default: all cores.", DEVICES),
    Flag("credentials", Path, "Folder with device-1.toml and so on, as slotwise enroll writes it.", BROKER),
)
QUIET = Parameter(help="Print errors only.", group=OUTPUT)
LOG_JSON = Parameter(help="Log as JSON, one object a line.", group=OUTPUT)


@command(*FLAGS, *LOGIN_FLAGS)
def device(
    options: dict[str, Any],
    *,
    number: Annotated[int, Parameter(name="--id", help="Number, from 1.", converter=whole_number)],
    log_json: Annotated[bool, LOG_JSON] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> int:
    """Run one device: train what the server assigns, send when it grants the channel.

    It waits for broker and server, survives their restarts, and ends with the run.
    """
    return _finish(lambda: run_device(number, **_how(options, quiet, log_json)))


@command(*FLEET_FLAGS, *FLAGS)
def fleet(
    options: dict[str, Any],
    *,
    log_json: Annotated[bool, LOG_JSON] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> int:
    """Run many devices at once, each with its own connection, for a trial on one machine."""
    if (processes := whole("processes", options.pop("processes", 1))) > 1:
        return _spread(processes, options)
    return _finish(lambda: run_fleet(**_how(options, quiet, log_json)))


def main() -> NoReturn:
    """Run `slotwise device`: the command of the distribution slotwise-device."""
    app.main("device")


def _how(options: dict[str, Any], quiet: bool, log_json: bool) -> dict[str, Any]:
    login = {name: options.pop(name) for name in option_names(BrokerOptions) if name in options}

    def notice(text: str) -> None:
        if not quiet:
            print(_json_line(text) if log_json else text, file=sys.stderr, flush=True)

    return {"broker": BrokerOptions(**login), "notice": notice, **options}


def _json_line(message: str) -> str:
    """Return a line of the log in the form of the server's."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"time": stamp, "level": "info", "event": "notice", "message": message})


def _finish(run: Callable[[], bool]) -> int:
    """Run devices to the end and return the exit code."""
    try:
        with stderr_may_close():
            over = run()
    except Excluded as error:
        print(f"slotwise: {error}", file=sys.stderr)
        return HOPELESS
    if not over:
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # the last wills are sent; a training under way cannot be stopped, only left
    return 0


def _spread(processes: int, options: dict[str, Any]) -> int:
    """Run the same command once for each process, with its share of the devices and of the cores."""
    devices, first = whole("devices", options.get("devices", 20)), whole("first", options.get("first", 1))
    if processes > devices:
        raise InputError("processes", processes, f"from 1 to {devices}, the number of devices")
    refuse_too_many_processes("processes", processes)
    login = {name: options[name] for name in option_names(BrokerOptions) if name in options}
    fleet_login(BrokerOptions(**login), first)  # here, so that processes do not all say what is wrong
    workers = max(1, whole("workers", options.get("workers", available_cores())) // processes)
    kept = _without_options(sys.argv[2:], {"--devices", "--first", "--processes", "--workers"})
    children = []
    for index in range(processes):
        count = devices // processes + (index < devices % processes)
        share = ["--devices", str(count), "--first", str(first), "--workers", str(workers)]
        program = [sys.executable, "-c", "from slotwise.cli import main; main()", "fleet"]
        children.append(subprocess.Popen([*program, *kept, *share]))
        first += count
    with stop_on_signals() as stopping:
        while any(child.poll() is None for child in children) and not stopping.requested:
            time.sleep(0.1)
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)  # each sends the last wills of its devices
        return max(abs(child.wait()) for child in children)


def _without_options(arguments: Sequence[str], names: set[str]) -> list[str]:
    """Return the arguments without these options and their values."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in names:
            next(rest, None)
        elif argument.partition("=")[0] not in names:
            kept.append(argument)
    return kept
