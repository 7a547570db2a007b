"""The command slotwise serve."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from slotwise.base.errors import MissingError, NoEffectError
from slotwise.base.observer import BaseObserver, Observers, Stop, stop_on_signals
from slotwise.cli.app import HOPELESS, INTERRUPTED, stderr_may_close
from slotwise.cli.flags import OUTPUT, Flag, command, flags_of, panel, refuse_with, run_flags
from slotwise.learning import History, Point
from slotwise.learning.history import REMEDY
from slotwise.live import ServerConfig
from slotwise.live.server.events import Level, LiveObserver, LogEvent
from slotwise.live.server.live_results import Comparison
from slotwise.live.server.live_run import LiveOutcome, Trouble
from slotwise.live.server.serving import PreparedRun, config_like, prepare_resume, prepare_serve
from slotwise.live.transport.broker import BrokerOptions
from slotwise.options.checks import option_names
from slotwise.report.number_text import counted, loss_text, percent
from slotwise.report.tables import table_console
from slotwise.runs import RunConfig, RunFolder, read_toml
from slotwise.runs.toml_options import blaming_file
from slotwise.schedule import Timeline
from slotwise.web.live_page import PageOptions, live_page

BROKER, SERVER, PAGE = panel("Broker"), panel("Server"), panel("Page")
SERVER_FLAGS = flags_of(ServerConfig, SERVER)
RUN_FLAGS = tuple(flag for flag in run_flags() if flag.name not in option_names(ServerConfig))
FILE_FLAGS = (
    Flag("out", Path, "Run folder; must not contain another run.", OUTPUT),
    Flag("resume", Path, "Resume the run in this folder, also after a crash.", OUTPUT),
    Flag("like", Path, "Run what was simulated in this folder; flags override its options.", OUTPUT),
    Flag("config", Path, "TOML file with any option of slotwise train; flags override it.", OUTPUT),
)
LOG_LEVEL = Parameter(
    help="Least important events that are logged. Default: info; warning with a progress bar or --quiet.",
    group=OUTPUT,
)
QUIET = Parameter(help="No progress bar, and log warnings and errors only.", group=OUTPUT)
_TROUBLES: dict[Trouble, str] = {
    "superseded": "another server was started on this channel, and devices follow the newer one; resume when "
    "it has ended, or with another --name",
}


@command(
    *FILE_FLAGS,
    *SERVER_FLAGS,
    *flags_of(BrokerOptions, BROKER),
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
    page: Annotated[
        bool, Parameter(help="Show the run in a web page, read-only, with /metrics and /healthz.", group=PAGE)
    ] = False,
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
    if go_on:
        refuse_with("go_on", {"resume": resume})
        if out is not None and RunFolder(out).is_run:
            resume, out, like, config, run = out, None, None, None, {}
    if like is not None:
        refuse_with("like", {"config": config})
    # All options are checked before a page is opened.
    page_options, how = _page_options(page, options), {"broker": BrokerOptions(**broker), **server}
    if resume is not None:
        refuse_with("resume", {"out": out, "like": like, "config": config, **run})
        prepared = prepare_resume(resume, **how)
    elif out is None:
        raise MissingError("out", "the folder of the new run (or --resume RUN)")
    else:
        prepared = _prepared_start(out, like, config, run, how)
    with (
        stderr_may_close(),
        stop_on_signals() as stopping,
        LiveDisplay(stopping, quiet=quiet, level=log_level, as_json=log_json) as display,
        _with_page(page_options, display) as observer,
    ):
        outcome = prepared.run(observer)
    return report(out if resume is None else resume, outcome, options)


def _prepared_start(
    out: Path, like: Path | None, config: Path | None, run: Mapping[str, Any], how: Mapping[str, Any]
) -> PreparedRun:
    """Return a new run whose options are checked."""
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


def report(place: Path, outcome: LiveOutcome | None, options: Mapping[str, Any]) -> int:
    """Print the outcome and return the exit code."""
    if outcome is None:
        shown = f"slotwise show {shlex.quote(str(place))} shows it"
        print(f"{place}: finished already; {shown}", file=sys.stderr)
        return 0
    state, comparison = outcome.state, outcome.comparison
    if comparison is not None:
        table_console().print(comparison_table(comparison))
        print(*comparison_lines(comparison), sep="\n")
    last = state.points[-1] if state.points else None
    figures = f": loss {loss_text(last.loss)}, accuracy {percent(last.accuracy, 2)}" if last else ""
    if last and last.round != state.round:
        figures += f" at round {last.round}"
    print(f"{outcome.status} after {counted(state.round, 'round')}{figures}  ({place})")
    if outcome.status == "finished":
        return 0
    if outcome.status == "diverged":
        reason = f"training diverged in round {state.round}: the model is not finite; {REMEDY}"
        print(f"slotwise: {reason}", file=sys.stderr)
        return HOPELESS
    if outcome.trouble is not None:
        print(f"slotwise: {_TROUBLES[outcome.trouble]}", file=sys.stderr)
    again = ["slotwise", "serve", "--resume", str(place)]
    for name in (*option_names(BrokerOptions), "listen"):
        if name in options:
            again += ["--" + name.replace("_", "-"), str(options[name])]
    print(f"resume with: {shlex.join(again)}", file=sys.stderr)
    return INTERRUPTED if outcome.trouble is None else HOPELESS


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


MOST_NAMED = 10  # devices in one line
_ROWS = {  # figure: title and format
    "rounds": ("rounds", ","),
    "updates": ("updates", ","),
    "lost": ("uplinks lost", ","),
    "mean_staleness": ("mean staleness, rounds", ".3f"),
    "max_staleness": ("largest staleness", ","),
    "slots": ("slots", ","),
    "slots_per_round": ("slots per round", ".2f"),
    "channel_use": ("channel in use", ".1%"),
}


def comparison_table(comparison: Comparison) -> Table:
    """Return plan and measurement side by side."""
    table = Table("", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("planned", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, (title, shape) in _ROWS.items():
        both = (getattr(figures, name) for figures in (comparison.planned, comparison.measured))
        table.add_row(title, *(format(figure, shape) for figure in both))
    table.add_row("ms per round", *("–" if ms is None else f"{ms:,.1f}" for ms in comparison.round_ms))
    return table


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return what the table does not show."""
    measured = comparison.measured
    speed = measured.updates / comparison.seconds if comparison.seconds else 0.0
    lines = [
        f"{comparison.as_planned:,} of {comparison.planned.updates:,} updates as planned; "
        f"{comparison.seconds:.1f} s, {speed:.0f} updates/s"
    ]
    if comparison.first_difference is not None:
        lines.append(f"first difference: {comparison.first_difference}")
    clipped = {device: norms.clipped for device, norms in comparison.norms.items() if norms.clipped}
    for title, counts in (("late", comparison.late), ("clipped", clipped)):
        if counts:
            worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
            named = ", ".join(f"device {device} ({_times(count)})" for device, count in worst)
            lines.append(f"{title}: {named}")
    lines += [
        f"model {rollback.version} begins with model {rollback.good} again, as those between were bad"
        for rollback in comparison.rollbacks
    ]
    lines += [f"rejected {_times(count)}: {reason}" for reason, count in comparison.rejected.items()]
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
