"""The command slotwise serve."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.base.errors import MissingError, NoEffectError
from slotwise.base.observer import BaseObserver, Observers
from slotwise.base.signals import stop_on_signals
from slotwise.cli.app import HOPELESS, INTERRUPTED, stderr_may_close
from slotwise.cli.flags import OUTPUT, Flag, command, flags_of, panel, refuse_with, run_flags
from slotwise.cli.live_display import LiveDisplay, comparison_lines, comparison_table
from slotwise.learning.history import REMEDY
from slotwise.live import ServerConfig
from slotwise.live.server.events import Level
from slotwise.live.server.live_run import LiveOutcome, Trouble
from slotwise.live.server.serving import PreparedRun, config_like, prepare_resume, prepare_serve
from slotwise.live.transport.broker import BrokerOptions
from slotwise.options.checks import option_names
from slotwise.report.number_text import counted, loss_text, percent
from slotwise.report.tables import table_console
from slotwise.runs import RunConfig, RunFolder, read_toml
from slotwise.runs.toml_options import blaming_file
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
