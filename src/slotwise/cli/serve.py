"""slotwise serve."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.cli.broker_options import BROKER, PORT, BrokerFlags, channel_name, need_mqtt
from slotwise.cli.flags import HOPELESS, INTERRUPTED
from slotwise.cli.holder import refuse_credentials_of_others
from slotwise.cli.live import LiveDisplay, comparison_lines, comparison_table
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import CHANNEL, OUTPUT, Quiet
from slotwise.cli.run_options import RunFlags
from slotwise.cli.serve_options import (
    kept_options,
    listening_address,
    new_parameters,
    new_place,
    refuse_options,
    resumed_parameters,
    server_options,
)
from slotwise.cli.unread import stderr_may_go_unread
from slotwise.errors import InputError, UserError
from slotwise.learning import Task
from slotwise.learning.history import REMEDY
from slotwise.live.call import say_end_again
from slotwise.live.plan import live_plan
from slotwise.live.run import LONGEST_GOODBYE, LiveOutcome, ServerOptions, Trouble, new_live_folder
from slotwise.live.run import serve as serve_live
from slotwise.live.topics import Topics
from slotwise.report.cost_tables import table_console
from slotwise.report.progress import stop_on_signals
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.runs.tasks import build_task

if TYPE_CHECKING:
    from slotwise.live.mqtt import Broker

DEFAULT_LISTEN = f"127.0.0.1:{PORT}"
TIME = "Time"
LONGEST_WAIT, LONGEST_WAIT_AGAIN = 3600.0, 300.0  # seconds
DEVICES = "Devices"


@with_option_groups
def serve(
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run: created, must not hold another.", rich_help_panel=OUTPUT),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this folder, after a crash too.", rich_help_panel=OUTPUT),
    ] = None,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="With --out: go on with the run that is there, if one is. For a service that restarts.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Run what was simulated in this folder (slotwise train); flags win.", rich_help_panel=OUTPUT
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with any option of slotwise train; flags win.", rich_help_panel=OUTPUT),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints.", rich_help_panel=OUTPUT)
    ] = SECONDS_BETWEEN_CHECKPOINTS,
    quiet: Quiet = False,
    broker: BrokerFlags,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Where the embedded broker listens, if no other is given.",
            show_default=DEFAULT_LISTEN,
            rich_help_panel=BROKER,
        ),
    ] = None,
    slot_ms: Annotated[
        float | None,
        typer.Option(help="Milliseconds of a slot: the channel keeps to the plan.", rich_help_panel=TIME),
    ] = None,
    as_fast_as_possible: Annotated[
        bool,
        typer.Option(
            "--as-fast-as-possible",
            help="A slot takes as long as what happens in it (the default).",
            rich_help_panel=TIME,
        ),
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds to wait for all devices; then it starts with those that are there, one at least. "
            "When it goes on, for those who were there.",
            show_default=f"{LONGEST_WAIT:g}, and {LONGEST_WAIT_AGAIN:g} when it goes on",
            rich_help_panel=DEVICES,
        ),
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which a device that still trains is asked for a sign of life, and counts as "
            "gone without one; so does a device that does not send what it was granted.",
            show_default="60",
            rich_help_panel=DEVICES,
        ),
    ] = None,
    clip_norm: Annotated[
        float | None,
        typer.Option(help="Shorten updates that are longer than this (L2 norm).", rich_help_panel=DEVICES),
    ] = None,
    run: RunFlags,
    fleet_file: Annotated[
        Path | None,
        typer.Option(help="CSV file with a row for each device (see train).", rich_help_panel=CHANNEL),
    ] = None,
) -> None:
    """Run a plan with real devices: grant the channel, collect updates, broadcast models.

    Without --broker an MQTT broker is started in this process, so that this and 'slotwise fleet --devices 20'
    on the same machine are a complete trial. Devices are told what to train unless they bring a task of their
    own.

    Ctrl-C ends after the current round; --resume goes on, and so it does after a crash.
    """
    given = run.given() if fleet_file is None else {**run.given(), "fleet_file": fleet_file}
    need_mqtt()
    if slot_ms is not None and as_fast_as_possible:
        raise InputError("slot_ms", slot_ms, "left out with --as-fast-as-possible")
    chosen = broker.chosen()
    if chosen is not None:
        refuse_credentials_of_others(chosen, "server")
    channel = channel_name(broker.name, chosen)
    own = {"name": channel, "patience": patience, "clip_norm": clip_norm, "slot_ms": slot_ms}
    address = listening_address(DEFAULT_LISTEN if listen is None else listen)
    if listen is not None and chosen is not None:
        raise InputError(
            "listen", listen, "left out where a broker is given: it is where one of ours listens"
        )
    if go_on and resume is not None:
        raise InputError("resume", resume, "left out with --go-on, which goes on with the run in --out")
    if go_on and out is not None and RunFolder(out).is_run:
        resume, out, like, config, given = out, None, None, None, {}
    if wait is None:  # whoever has died meanwhile holds up a run that goes on for some minutes only
        wait = LONGEST_WAIT if resume is None else LONGEST_WAIT_AGAIN
    if resume is not None:
        refuse_options({"out": out, "like": like, "config": config, **given})
        parameters, place = resumed_parameters(resume), resume
        own = kept_options(resume, own)
        if as_fast_as_possible:
            own["slot_ms"] = None
        if RunFolder(place).status == "finished":
            shown = f"slotwise show {shlex.quote(str(place))} shows it"
            typer.echo(f"{place}: finished already; {shown}", err=True)
            if chosen is not None:
                _end_again(RunFolder(place), chosen, server_options(own, wait, checkpoint_every))
            return
    else:
        parameters, place = new_parameters(like, config, given), new_place(out)
    options = server_options(own, wait, checkpoint_every)
    learned = build_task(parameters)  # every mistake is told before a folder is made
    session = _Session(place, parameters, learned, options, quiet)
    outcome = session.run(chosen, address)
    _report(place, outcome, {**broker.where(), "listen": listen}, paced=options.slot_ms is not None)


def _end_again(folder: RunFolder, broker: Broker, options: ServerOptions) -> None:
    """Devices still wait if the server was killed between its last file and its last word.

    The run is finished all the same, so that nobody can be told is no failure.
    """
    from slotwise.live.mqtt import connected_channel  # noqa: PLC0415

    async def say() -> None:
        topics = Topics(options.name)
        async with asyncio.timeout(LONGEST_GOODBYE), connected_channel(broker, _identity(topics)) as channel:
            await say_end_again(str(folder.description()["live_run"]), channel, topics)

    try:
        asyncio.run(say())
    except (UserError, TimeoutError) as error:
        typer.echo(f"devices were not told that it is over: {error or 'the broker is gone'}", err=True)


def _identity(topics: Topics) -> str:
    """Each server its own: a second one on the channel must not throw the first out before it has said so."""
    return topics.client(f"server-{secrets.token_hex(4)}")


_TROUBLES: dict[Trouble, str] = {
    "superseded": "another server was started on this channel, and devices follow the newer one; go on when "
    "that is over, or with another --name",
    "nobody left": "every device is out, each after bad or missing updates in a row; rejections.log says "
    "what was wrong",
}


SLOTS_TOO_SHORT = "; slots may be too short for them (--slot-ms)"


@dataclass(frozen=True)
class _Session:
    """One call of the command."""

    place: Path
    parameters: RunConfig
    task: Task
    options: ServerOptions
    quiet: bool

    def run(self, broker: Broker | None, listen: tuple[str, int]) -> LiveOutcome:
        """Serve until it is done, or until the user has had enough."""
        rounds = live_plan(self.parameters).rounds
        with (
            stderr_may_go_unread(),
            stop_on_signals() as stopping,
            LiveDisplay(stopping, rounds, quiet=self.quiet) as display,
        ):
            return asyncio.run(self._serve(broker, listen, display))

    def _devices(self, broker: Broker) -> str:
        """The command that starts devices for a trial."""
        words = ["slotwise", "fleet", "--devices", str(self.parameters.channel.devices)]
        if broker.port != PORT:
            words += ["--broker", str(broker)]
        if self.options.name != ServerOptions.name:
            words += ["--name", self.options.name]
        return shlex.join(words)

    async def _serve(
        self, broker: Broker | None, listen: tuple[str, int], display: LiveDisplay
    ) -> LiveOutcome:
        from slotwise.live.embedded import embedded_broker  # noqa: PLC0415
        from slotwise.live.mqtt import connected_channel  # noqa: PLC0415
        from slotwise.live.outages import Outages  # noqa: PLC0415

        async with AsyncExitStack() as stack:
            if broker is None:
                broker = await stack.enter_async_context(embedded_broker(listen[1], listen[0]))
                typer.echo(f"broker at {broker}; start devices with: {self._devices(broker)}", err=True)
            identity = _identity(Topics(self.options.name))
            outages = Outages(display.say)
            channel = await stack.enter_async_context(connected_channel(broker, identity, outages=outages))
            folder = RunFolder(self.place)
            if not folder.is_run:  # nothing is made before there is a broker
                folder = new_live_folder(self.place, self.parameters, self.options)
            return await serve_live(
                folder,
                self.parameters,
                self.task,
                channel,
                options=self.options,
                watcher=display,
            )


def _report(place: Path, outcome: LiveOutcome, where: dict[str, Any], *, paced: bool) -> None:
    state = outcome.state
    if outcome.comparison is not None:
        table_console().print(comparison_table(outcome.comparison))
        for line in comparison_lines(outcome.comparison):
            typer.echo(line)
    last = state.points[-1] if state.points else None
    figures = f": loss {last.loss:.4f}, accuracy {last.accuracy:.2%}" if last else ""
    if last and last.round != state.round:
        figures += f" at round {last.round}"
    typer.echo(f"{outcome.status} after {state.round} rounds{figures}  ({place})")
    if outcome.status == "interrupted":
        words = ["slotwise", "serve", "--resume", str(place)]
        for name, value in where.items():
            words += [] if value is None else ["--" + name.replace("_", "-"), str(value)]
        if outcome.trouble is not None:
            too_short = SLOTS_TOO_SHORT if paced and outcome.trouble == "nobody left" else ""
            typer.echo(f"slotwise: {_TROUBLES[outcome.trouble]}{too_short}", err=True)
        if outcome.trouble != "nobody left":
            typer.echo(f"go on with: {shlex.join(words)}", err=True)
        raise typer.Exit(INTERRUPTED if outcome.trouble is None else HOPELESS)
    if outcome.status == "diverged":
        line = f"training diverged in round {state.round}: the model is not finite; {REMEDY}"
        typer.echo(f"slotwise: {line}", err=True)
        raise typer.Exit(HOPELESS)
