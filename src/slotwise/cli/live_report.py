"""The text that slotwise serve prints when a run or a campaign ends."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.base.observer import BaseObserver
from slotwise.cli.app import HOPELESS, INTERRUPTED
from slotwise.learning.history import REMEDY
from slotwise.live.server.campaign import CampaignRun
from slotwise.live.server.campaign_serving import PreparedCampaign
from slotwise.live.server.live_results import Comparison
from slotwise.live.server.live_run import LiveOutcome, Trouble
from slotwise.live.transport.broker import BrokerOptions
from slotwise.options.checks import option_names
from slotwise.report.number_text import counted, loss_text, percent
from slotwise.report.tables import table_console

_TROUBLES: dict[Trouble, str] = {
    "superseded": "another server was started on this channel, and devices follow the newer one; resume when "
    "it has ended, or with another --name",
}


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
    print(outcome_line(place, outcome))
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


def run_campaign(prepared: PreparedCampaign, observer: BaseObserver) -> int:
    """Run a campaign, print a line for each run, and return the exit code."""
    outcomes: list[LiveOutcome] = []

    def ended(run: CampaignRun, outcome: LiveOutcome) -> None:
        outcomes.append(outcome)
        print(f"run {run.number}, {run.plan}: {outcome_line(run.path, outcome)}", flush=True)

    status, out = prepared.run(observer, ended), shlex.quote(str(prepared.campaign.out))
    print(f"the campaign in {out} is {'over' if status == 'finished' else 'interrupted'}", file=sys.stderr)
    if status == "finished":
        return HOPELESS if any(outcome.status == "diverged" for outcome in outcomes) else 0
    troubles = [_TROUBLES[outcome.trouble] for outcome in outcomes if outcome.trouble is not None]
    for trouble in troubles:
        print(f"slotwise: {trouble}", file=sys.stderr)
    return HOPELESS if troubles else INTERRUPTED


def outcome_line(place: Path, outcome: LiveOutcome) -> str:
    """Return how a run ended, in one line."""
    state = outcome.state
    last = state.points[-1] if state.points else None
    figures = f": loss {loss_text(last.loss)}, accuracy {percent(last.accuracy, 2)}" if last else ""
    if last and last.round != state.round:
        figures += f" at round {last.round}"
    return f"{outcome.status} after {counted(state.round, 'round')}{figures}  ({place})"


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
    planned = "decided by what was learned; planned: without that"
    if comparison.as_planned is not None:
        planned = f"{comparison.as_planned:,} of {comparison.planned.updates:,} updates as planned"
    lines = [f"{planned}; {comparison.seconds:.1f} s, {speed:.0f} updates/s"]
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
