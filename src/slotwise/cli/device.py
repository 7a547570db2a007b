"""slotwise device and slotwise fleet."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slotwise.cli.broker_options import (
    BROKER,
    PORT,
    BrokerAddress,
    BrokerFlags,
    ChannelName,
    channel_name,
    need_mqtt,
)
from slotwise.cli.flags import HOPELESS, INTERRUPTED
from slotwise.cli.holder import refuse_credentials_of_others
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import OUTPUT
from slotwise.cli.unread import stderr_may_go_unread
from slotwise.errors import InputError, UserError
from slotwise.live.channel import KEEPALIVE
from slotwise.live.topics import MOST_DEVICES, TRIAL, Topics
from slotwise.report.progress import stop_on_signals
from slotwise.scenario import whole
from slotwise.user_code import load_function

DATA = "Data"
LONGEST_KEEPALIVE = 65535  # MQTT has two bytes for it
DEFAULT_BROKER = f"mqtt://127.0.0.1:{PORT}"

DataName = Annotated[
    Literal["mnist", "cifar10"] | None,
    typer.Option(help="Data set. Default: what the server says.", rich_help_panel=DATA),
]
PartitionName = Annotated[
    Literal["one-label", "k-labels", "dirichlet", "iid"] | None,
    typer.Option(
        help="Which of its samples are this device's. Default: as the server says.", rich_help_panel=DATA
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="A task of your own, with data of your own: my_module:make_task.",
        rich_help_panel=DATA,
    ),
]
Patience = Annotated[
    float, typer.Option(help="Seconds to wait for the broker to be there.", rich_help_panel=OUTPUT)
]
Keepalive = Annotated[
    int,
    typer.Option(
        help="Seconds of silence after which broker and device ask for a sign of life; after one and a half "
        "times as long without one, the device counts as gone.",
        rich_help_panel=BROKER,
    ),
]
Workers = Annotated[int | None, typer.Option(help="Trainings at once. Default: all cores.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.", rich_help_panel=OUTPUT)]


@with_option_groups
def device(
    *,
    number: Annotated[int, typer.Option("--id", help="Which device this is, from 1.")],
    broker: BrokerFlags,
    data: DataName = None,
    partition: PartitionName = None,
    task: TaskName = None,
    patience: Patience = 60.0,
    keepalive: Keepalive = KEEPALIVE,
    quiet: Quiet = False,
) -> None:
    """Be one device: train what the server assigns, send when it grants the channel.

    It waits for the broker and for the server, survives the restart of both, and ends when the run does.
    """
    need_mqtt()
    chosen = broker.chosen(DEFAULT_BROKER)
    own = {"data": data, "partition": partition, "task": task}
    _take_part([whole("id", number)], broker.name, {number: chosen}, own, 1, patience, keepalive, quiet)


def fleet(
    devices: Annotated[int, typer.Option(help="How many devices.")] = 20,
    first: Annotated[int, typer.Option(help="The number of the first.")] = 1,
    processes: Annotated[int, typer.Option(help="Spread them over so many processes.")] = 1,
    workers: Workers = None,
    broker: BrokerAddress = None,
    name: ChannelName = None,
    credentials: Annotated[
        Path | None,
        typer.Option(help="Folder with device-1.toml, device-2.toml, … as slotwise enroll writes them."),
    ] = None,
    data: DataName = None,
    partition: PartitionName = None,
    task: TaskName = None,
    patience: Patience = 60.0,
    keepalive: Keepalive = KEEPALIVE,
    quiet: Quiet = False,
) -> None:
    """Be many devices at once, each with a connection of its own, for a trial on one machine."""
    need_mqtt()
    if whole("devices", devices) > MOST_DEVICES:
        raise InputError("devices", devices, f"at most {MOST_DEVICES:,}, as each has a connection of its own")
    whole("first", first)
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    if whole("processes", processes) > 1:
        _spread(devices, first, min(processes, devices), threads)
        return
    numbers = range(first, first + devices)
    files = {n: None if credentials is None else credentials / f"device-{n}.toml" for n in numbers}
    brokers = {n: BrokerFlags(broker, credentials=files[n]).chosen(DEFAULT_BROKER) for n in numbers}
    own = {"data": data, "partition": partition, "task": task}
    _take_part(numbers, name, brokers, own, threads, patience, keepalive, quiet)


def _take_part(
    numbers: Sequence[int],
    name: str | None,
    brokers: dict[int, Any],
    own: dict[str, str | None],
    workers: int,
    patience: float,
    keepalive: int,
    quiet: bool,
) -> None:
    from slotwise.live.fleet import ShutOut, take_part  # noqa: PLC0415

    if not 0 <= patience < float("inf"):
        raise InputError("patience", patience, "a number of seconds, at least 0")
    if whole("keepalive", keepalive) > LONGEST_KEEPALIVE:
        raise InputError("keepalive", keepalive, f"at most {LONGEST_KEEPALIVE} seconds")
    if own["task"] is not None:
        load_function("task", own["task"])  # a mistake is told at once, not when a server calls
    for number in numbers:
        refuse_credentials_of_others(brokers[number], f"device-{number}")
    names = {channel_name(name, broker) for broker in brokers.values()}
    if len(names) > 1:
        raise UserError(f"the credentials are for different channels: {', '.join(sorted(map(str, names)))}")
    (chosen,) = names
    topics = Topics(TRIAL if chosen is None else chosen)
    options = {key: value for key, value in own.items() if value is not None}

    def tell(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    async def run() -> bool:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        return await take_part(
            numbers,
            topics,
            brokers,
            options,
            workers=workers,
            patience=patience,
            keepalive=keepalive,
            stop=stop,
            tell=tell,
        )

    try:
        with stderr_may_go_unread():
            over = asyncio.run(run())
    except ShutOut as error:
        typer.echo(f"slotwise: {error}", err=True)
        raise typer.Exit(HOPELESS) from None
    if not over:
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # farewell is said; a training under way cannot be stopped, only left behind


def _spread(devices: int, first: int, processes: int, workers: int) -> None:
    """The same command once for each process, with its share of the devices and of the cores."""
    base, more = divmod(devices, processes)
    arguments = _without_options(sys.argv[2:], {"--devices", "--first", "--processes", "--workers"})
    children = []
    for index in range(processes):
        share = base + (index < more)
        own = ["--devices", str(share), "--first", str(first), "--workers", str(max(1, workers // processes))]
        command = [sys.executable, "-c", "from slotwise.cli import main; main()", "fleet", *arguments, *own]
        children.append(subprocess.Popen(command))
        first += share
    with stop_on_signals() as stopping:
        while any(child.poll() is None for child in children) and not stopping.requested:
            time.sleep(0.1)
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)  # each says farewell for its devices
        codes = [child.wait() for child in children]
    if any(codes):
        raise typer.Exit(max(abs(code) for code in codes))


def _without_options(arguments: Sequence[str], names: set[str]) -> list[str]:
    """The arguments without these options and their values."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in names:
            next(rest, None)
        elif argument.partition("=")[0] not in names:
            kept.append(argument)
    return kept
