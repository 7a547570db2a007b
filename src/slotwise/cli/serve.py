"""The command slotwise serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from slotwise.base.errors import MissingError, NoEffectError
from slotwise.base.observer import BaseObserver, Observers, Stop, stop_on_signals
from slotwise.cli.app import stderr_may_close
from slotwise.cli.flags import OUTPUT, Flag, command, flags_of, panel, refuse_with, run_flags
from slotwise.cli.live_report import report, run_campaign
from slotwise.learning import History, Point
from slotwise.live import ServerConfig
from slotwise.live.server.campaign import Campaign, CampaignOptions
from slotwise.live.server.campaign_serving import PreparedCampaign, prepare_campaign
from slotwise.live.server.events import Level, LiveObserver, LogEvent
from slotwise.live.server.serving import PreparedRun, config_like, prepare_resume, prepare_serve
from slotwise.live.transport.broker import BrokerOptions
from slotwise.options.checks import field_types, option_names
from slotwise.options.option_text import field_help
from slotwise.report.number_text import loss_text, percent
from slotwise.runs import RunConfig, RunFolder, read_toml
from slotwise.runs.toml_options import blaming_file
from slotwise.schedule import Timeline
from slotwise.web.live_page import PageOptions, live_page

BROKER, SERVER, CAMPAIGN, PAGE = panel("Broker"), panel("Server"), panel("Campaign"), panel("Page")
SWITCHES = [name for name, kind in field_types(ServerConfig).items() if kind is bool]
SERVER_FLAGS = flags_of(
    ServerConfig, SERVER, only=[name for name in option_names(ServerConfig) if name not in SWITCHES]
)
RUN_FLAGS = tuple(flag for flag in run_flags() if flag.name not in option_names(ServerConfig))
FILE_FLAGS = (
    Flag("out", Path, "Run folder; must not contain another run.", OUTPUT),
    Flag("resume", Path, "Resume the run in this folder, also after a crash.", OUTPUT),
    Flag("like", Path, "Run what was simulated in this folder; flags override its options.", OUTPUT),
    Flag("config", Path, "TOML file with any option of slotwise train; flags override it.", OUTPUT),
)
CAMPAIGN_FLAGS = (
    Flag(
        "campaign",
        Path,
        "Folder of plans, TOML files: run one after another, each in a folder below --out.",
        CAMPAIGN,
    ),
    *flags_of(CampaignOptions, CAMPAIGN, only=["start_at", "keep_runs"]),
)
LOG_LEVEL = Parameter(
    help="Least important events that are logged. Default: info; warning with a progress bar or --quiet.",
    group=OUTPUT,
)
QUIET = Parameter(help="No progress bar, and log warnings and errors only.", group=OUTPUT)


@command(
    *FILE_FLAGS,
    *SERVER_FLAGS,
    *flags_of(BrokerOptions, BROKER),
    *CAMPAIGN_FLAGS,
    *flags_of(PageOptions, PAGE, defaults={"page_listen": None}),
    *RUN_FLAGS,
)
def serve(
    options: dict[str, Any],
    *,
    go_on: Annotated[
        bool,
        Parameter(help="With --out: resume the run there if there is one, as services do.", group=OUTPUT),
    ] = False,
    as_fast_as_possible: Annotated[
        bool, Parameter(help="A slot lasts until its events have happened (the default).", group=SERVER)
    ] = False,
    grants_ahead: Annotated[
        bool, Parameter(help=field_help(ServerConfig)["grants_ahead"], group=SERVER)
    ] = False,
    page: Annotated[
        bool, Parameter(help="Show the run in a web page, read-only, with /metrics and /healthz.", group=PAGE)
    ] = False,
    repeat: Annotated[bool, Parameter(help=field_help(CampaignOptions)["repeat"], group=CAMPAIGN)] = False,
    log_json: Annotated[bool, Parameter(help="Log as JSON, one object a line.", group=OUTPUT)] = False,
    log_level: Annotated[Level | None, LOG_LEVEL] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> int:
    """Run a plan with real devices: grant the channel, collect updates, broadcast models.

    Without --broker an MQTT broker is started in this process, so that this and 'slotwise fleet --devices 20'
    on the same machine are a complete trial. Devices are told what to train unless they have their own task.

    Ctrl-C ends after the current round; --resume continues, also after a crash.
    """
    files: dict[str, Any] = {flag.name: options.get(flag.name) for flag in FILE_FLAGS}
    out, resume, like, config = files.values()
    server, broker, run = (
        {name: options[name] for name in names if name in options}
        for names in (option_names(ServerConfig), option_names(BrokerOptions), [f.name for f in RUN_FLAGS])
    )
    if as_fast_as_possible:
        refuse_with("as_fast_as_possible", {"slot_ms": server.get("slot_ms")})
        server["slot_ms"] = None
    if grants_ahead:
        server["grants_ahead"] = True
    if go_on:
        refuse_with("go_on", {"resume": resume})
        if out is not None and RunFolder(out).is_run:
            resume, out, like, config, run = out, None, None, None, {}
    # All options are checked before a page is opened.
    page_options, how = _page_options(page, options), {"broker": BrokerOptions(**broker), **server}
    campaign = _campaign(options, repeat)
    prepared: PreparedRun | PreparedCampaign
    if campaign is not None:
        refuse_with("campaign", {"resume": resume, "like": like, "config": config, "go_on": go_on, **run})
        prepared = prepare_campaign(campaign, **how)
    elif resume is not None:
        refuse_with("resume", {"out": out, "like": like, "config": config, **run})
        prepared = prepare_resume(resume, **how)
    else:
        prepared = _prepared_start(out, like, config, run, how)
    with stderr_may_close(), stop_on_signals() as stopping:
        display = LiveDisplay(stopping, quiet=quiet, level=log_level, as_json=log_json)
        with _with_page(page_options, display) as observer:  # the page may stay for longer than the run
            with display:
                if isinstance(prepared, PreparedCampaign):
                    return run_campaign(prepared, observer)
                outcome = prepared.run(observer)
            return report(out if resume is None else resume, outcome, options)


def _campaign(options: Mapping[str, Any], repeat: bool) -> Campaign | None:
    """Return the campaign; None without one."""
    given = {flag.name: options[flag.name] for flag in CAMPAIGN_FLAGS if flag.name in options}
    plans = given.pop("campaign", None)
    if plans is not None:
        if "out" not in options:
            raise MissingError("out", "the folder of the campaign's runs")
        return Campaign(plans, options["out"], CampaignOptions(repeat=repeat, **given))
    for name, value in {**given, **({"repeat": True} if repeat else {})}.items():
        raise NoEffectError(name, value, "without campaign")
    return None


def _prepared_start(
    out: Path | None, like: Path | None, config: Path | None, run: Mapping[str, Any], how: Mapping[str, Any]
) -> PreparedRun:
    """Return a new run whose options are checked."""
    if out is None:
        raise MissingError("out", "the folder of the new run (or --resume RUN)")
    if like is not None:
        refuse_with("like", {"config": config})
    with blaming_file(config, run):
        from_file = read_toml(config) if config else {}
        chosen = config_like(like, run) if like else RunConfig.from_options({**from_file, **run})
        return prepare_serve(chosen, out, **how)


def _page_options(page: bool, options: Mapping[str, Any]) -> PageOptions | None:
    """Return the options of the page; None without one."""
    given = {name: options[name] for name in option_names(PageOptions) if name in options}
    if page:
        return PageOptions(**given)
    for name, value in given.items():
        raise NoEffectError(name, value, "without page")
    return None


@contextmanager
def _with_page(options: PageOptions | None, display: BaseObserver) -> Iterator[BaseObserver]:
    """Yield the observer of the run: the display and, if there is one, the page."""
    if options is None:
        yield display
        return
    with live_page(options, notices=display) as shown:
        yield Observers(display, shown)


class LiveDisplay(LiveObserver):
    """A progress bar: first the devices that are connected, then the rounds; and the log above it.

    Without a ``level``, the log has warnings next to a progress bar or if ``quiet``, and information too if
    it is read from a file or a journal.
    """

    def __init__(
        self, stopping: Stop, *, quiet: bool, level: Level | None = None, as_json: bool = False
    ) -> None:
        self._stopping, self._rounds, self._as_json = stopping, 0, as_json
        self._console = Console(stderr=True)
        has_bar = self._console.is_terminal and not (quiet or as_json)
        self._level: Level = level or ("warning" if quiet or has_bar else "info")
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            disable=not has_bar,
        )
        self._row = self._bar.add_task("devices", total=None, text="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def notice(self, message: str) -> None:
        """Print a line above the bar."""
        if self._as_json:
            message = LogEvent("info", "notice", {"message": message}).json()
        self._print(message)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def devices_connected(self, present: int, expected: int) -> None:
        """Show how many devices are connected."""
        self._bar.start()
        self._bar.update(self._row, description="devices", total=expected, completed=present)

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:  # noqa: ARG002
        """Remember how many rounds there are."""
        self._rounds = timeline.rounds

    def round_done(self, round_number: int) -> None:
        """Move the progress bar."""
        self._bar.start()
        self._bar.update(self._row, description="rounds", total=self._rounds, completed=round_number + 1)

    def evaluated(self, point: Point) -> None:
        """Show the newest loss and accuracy."""
        self._bar.update(self._row, text=f"loss {loss_text(point.loss)} acc {percent(point.accuracy)}")

    def logged(self, event: LogEvent) -> None:
        """Print an event, if it is important enough."""
        if event.is_at_least(self._level):
            self._print(event.json() if self._as_json else event.text())

    def wants_stop(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._stopping.requested
