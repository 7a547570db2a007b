"""slotwise device and slotwise fleet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.cli.flags import OUTPUT, PANELS, command, flags_of, panel, whole_number
from slotwise.cli.live_display import stderr_may_close
from slotwise.live.device.device_host import DeviceConfig, Excluded, run_device, run_fleet
from slotwise.live.transport.broker import BrokerOptions
from slotwise.machine import available_cores
from slotwise.option_types import option_names
from slotwise.report.progress import stop_on_signals
from slotwise.scenario import whole

HOPELESS = 3  # the server would exclude the device again: service managers must not restart it
INTERRUPTED = 130
BROKER, DEVICES = panel("Broker"), panel("Devices")
DATA = ("data", "partition", "task")
FLAGS = (
    *flags_of(BrokerOptions, BROKER, only=["broker"]),
    *flags_of(DeviceConfig, BROKER, only=["name", "keepalive"]),
    *flags_of(DeviceConfig, PANELS["dataset"], only=DATA),
    *(replace(flag, alias="--patience") for flag in flags_of(DeviceConfig, BROKER, only=["timeout"])),
)
LOGIN = flags_of(BrokerOptions, BROKER, only=["credentials", "user", "password_file", "ca"])
QUIET = Parameter(help="Print errors only.", group=OUTPUT)


@command(*FLAGS, *LOGIN)
def device(
    options: dict[str, Any],
    *,
    number: Annotated[
        int, Parameter(name="--id", help="Number of this device, from 1.", converter=whole_number)
    ],
    quiet: Annotated[bool, QUIET] = False,
) -> int:
    """Be one device: train what the server assigns, send when it grants the channel.

    It waits for broker and server, survives their restarts, and ends with the run.
    """
    login, chosen = _split(options)
    return _finish(lambda: run_device(number, broker=login, note=_printer(quiet), **chosen))


@command(*FLAGS)
def fleet(
    options: dict[str, Any],
    *,
    devices: Annotated[
        int, Parameter(help="How many devices.", group=DEVICES, converter=whole_number, show_default=True)
    ] = 20,
    first: Annotated[
        int, Parameter(help="Number of the first one.", group=DEVICES, converter=whole_number)
    ] = 1,
    processes: Annotated[
        int, Parameter(help="Spread them over several processes.", group=DEVICES, converter=whole_number)
    ] = 1,
    workers: Annotated[
        int | None,
        Parameter(help="Parallel trainings. Default: all cores.", group=DEVICES, converter=whole_number),
    ] = None,
    credentials: Annotated[
        Path | None,
        Parameter(help="Folder with device-1.toml and so on, as slotwise enroll writes it.", group=BROKER),
    ] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> int:
    """Be many devices at once, each with its own connection, for a trial on one machine."""
    if whole("processes", processes) > 1:
        return _spread(whole("devices", devices), first, min(processes, devices), workers)
    login, chosen = _split(options)
    broker = replace(login, credentials=credentials)
    return _finish(
        lambda: run_fleet(
            devices, first=first, workers=workers, broker=broker, note=_printer(quiet), **chosen
        )
    )


def _split(options: dict[str, Any]) -> tuple[BrokerOptions, dict[str, Any]]:
    login = {name: options.pop(name) for name in option_names(BrokerOptions) if name in options}
    return BrokerOptions(**login), options


def _printer(quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


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


def _spread(devices: int, first: int, processes: int, workers: int | None) -> int:
    """Run the same command once for each process, with its share of the devices and of the cores."""
    base, more = divmod(devices, processes)
    threads = available_cores() if workers is None else whole("workers", workers)
    arguments = _without_options(sys.argv[2:], {"--devices", "--first", "--processes", "--workers"})
    children = []
    for index in range(processes):
        count = base + (index < more)
        share = [
            "--devices",
            str(count),
            "--first",
            str(first),
            "--workers",
            str(max(1, threads // processes)),
        ]
        command = [sys.executable, "-c", "from slotwise.cli import main; main()", "fleet", *arguments, *share]
        children.append(subprocess.Popen(command))
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
