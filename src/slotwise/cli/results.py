"""The commands show and explore: what runs and batches have come to."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.base.errors import ConflictError, InputError, MissingError, NoEffectError, UserError
from slotwise.base.files import check_writable, json_text, write_atomically
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.results import BatchResults, read_run
from slotwise.batch.summary import Row, TableOptions, batch_table, summary_table
from slotwise.cli.batches import results_table
from slotwise.cli.flags import (
    AsJson,
    PerDevice,
    command,
    flags_of,
    output,
    panel,
    power_flags,
    take_powers,
    whole_number,
)
from slotwise.live.slots.slot_use import FILE, read_uses
from slotwise.options.checks import option_names
from slotwise.report.curves import CurveFigure, Spread
from slotwise.report.figure_options import FigureOptions
from slotwise.report.gantt import check_picture_path, whole_window, window_of
from slotwise.report.gantt.overlay_chart import MOST_SLOTS, ChannelUse, channel_uses, write_overlay
from slotwise.report.paper_table import TABLE_SUFFIXES, PaperTable, TableKind
from slotwise.report.plotting import (
    check_style,
    curves_figure,
    curves_of,
    draw_curves,
    grouped_runs,
    picture_kind,
)
from slotwise.report.tables import device_csv, run_as_dict, run_tables, table_console
from slotwise.runs import SavedRun
from slotwise.runs.device_data import changed_data_text, changed_sources
from slotwise.runs.saved_run import has_run
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Powers


@dataclass(frozen=True)
class TableRequest:
    """The table that a command line asks for: its format, and its file unless it is printed."""

    kind: TableKind
    out: Path | None
    options: TableOptions
    band: Spread | None
    slot_seconds: float | None

    @classmethod
    def take(
        cls, options: dict[str, Any], table: str | None, *, tex: bool, as_json: bool
    ) -> TableRequest | None:
        """Remove the options of the table from those given; None if no table is asked for."""
        given = {name: options.pop(name) for name in option_names(TableOptions) if name in options}
        if tex and table is not None:
            raise ConflictError("tex", "table")
        wanted = "tex" if tex else table
        if wanted is None:
            if given:
                raise UserError(f"--{next(iter(given))} needs --table or --tex: it is about the table")
            return None
        out = None if wanted in TABLE_SUFFIXES.values() else Path(wanted)
        kind = wanted if out is None else TABLE_SUFFIXES.get(out.suffix.lower())
        if kind is None:
            raise InputError("table", wanted, "text, csv, markdown, tex or a file in .txt, .csv, .md or .tex")
        if out is None and as_json:
            raise ConflictError("json", "tex" if tex else "table", "both would be printed")
        if out is not None:
            check_writable(out)
        asked = TableOptions(**given)
        alone = asked.target is not None and not any(name.startswith("power") for name in options)
        length = options.pop("slot_seconds", None) if alone else options.get("slot_seconds")
        return cls(kind, out, asked, options.get("band"), length)  # type: ignore[arg-type]

    @property
    def prints(self) -> bool:
        """True if the table is printed in place of the usual one."""
        return self.out is None

    def of_batch(self, results: BatchResults) -> PaperTable:
        """Return the table of a batch."""
        return batch_table(results, self.options, self.band, self.slot_seconds)

    def of_runs(self, saved: list[SavedRun], powers: Powers | None) -> PaperTable:
        """Return the table of runs, in which those that differ in seeds only are one row."""
        groups = grouped_runs(saved, merge_seeds=True)
        rows = [Row((label,), tuple(read_run(run, powers) for run in runs)) for label, runs in groups.items()]
        return summary_table(("run",), rows, self.options, self.band, self.slot_seconds)

    def write(self, table: PaperTable) -> None:
        """Print the table or write it to its file."""
        text = table.render(self.kind)
        if self.out is None:
            print(text, end="")
            return
        write_atomically(self.out, text)
        print(f"wrote {self.out}", file=sys.stderr)


@dataclass(frozen=True)
class FigureRequest:
    """The figure that a command line asks for, if it asks for one."""

    out: Path | None
    metric: str | None
    options: FigureOptions
    slot_seconds: float | None

    @classmethod
    def take(
        cls, options: dict[str, Any], out: Path | None, metric: str | None, table: TableRequest | None
    ) -> FigureRequest:
        """Remove the options of the figure from those given, and refuse what has no effect."""
        given = {name: options.pop(name) for name in option_names(FigureOptions) if name in options}
        idle = [name for name in given if table is None or name != "band"]  # a table has a spread, too
        if out is None and (idle or metric is not None):
            name = next(iter(idle), "metric")
            raise UserError(f"--{name} needs --out FILE: it is about the figure")
        if out is not None:
            picture_kind(out)
            check_writable(out)
        asked = FigureOptions(**given)
        if asked.style is not None:
            check_style(asked.style)
        # The length of a slot is one of the powers, but seconds do without the others.
        alone = asked.x == "seconds" and set(options) == {"slot_seconds"}
        length = options.pop("slot_seconds") if alone else options.get("slot_seconds")
        return cls(out, metric, asked, length)

    def of_runs(self, saved: list[SavedRun], powers: Powers | None) -> CurveFigure | None:
        """Return the figure of runs; those that differ in seeds only are one curve if a band is chosen."""
        if self.out is None:
            return None
        if self.options.x == "joules" and powers is None:
            raise MissingError("power_computing", "given in watts for joules, like the other powers")
        merge = self.options.band is not None
        curves = curves_of(saved, powers, self.slot_seconds, merge_seeds=merge)
        return self.options.applied(curves_figure(curves, self.metric, self.options))

    def write(self, figure: CurveFigure | None) -> None:
        """Draw a figure to its file."""
        if self.out is not None and figure is not None:
            draw_curves(figure, self.out, replace(self.options, labels=()))
            print(f"wrote {self.out}", file=sys.stderr)


USUAL_OVERLAY = 200  # slots
OUT = output("Draw the curves: FILE.png, .svg or .pdf.", metavar="FILE")
METRIC = output("Metric to draw: beside the loss for runs (default: accuracy), in its place for a batch.")
USAGE_CSV = output("Write slots and joules of every device: FILE.csv.", metavar="FILE")
GANTT = output(
    "Draw the slots of a live run: planned uplinks as outlines, measured ones in colour; FILE.png or .svg.",
    metavar="FILE",
)
SLOTS = output("With --gantt: slots A to B−1, at most 2,000. Default: the first 200.", metavar="A:B")
FIGURE = panel("Figure")
TABLE = panel("Table for a paper: means over seeds")
TABLE_OUT = Parameter(
    help="Print it as text, csv, markdown or tex (booktabs), or write it: FILE.txt, .csv, .md or .tex.",
    metavar="KIND|FILE",
    group=TABLE,
)
TEX = Parameter(help="The same as --table tex.", group=TABLE)


@command(*flags_of(FigureOptions, FIGURE), *flags_of(TableOptions, TABLE), *power_flags())
def show(
    options: dict[str, Any],
    runs: Annotated[list[Path], Parameter(help="Run folders, or the folder of one batch.")],
    /,
    *,
    out: Annotated[Path | None, OUT] = None,
    metric: Annotated[str | None, METRIC] = None,
    per_device: PerDevice = False,
    usage_csv: Annotated[Path | None, USAGE_CSV] = None,
    gantt: Annotated[Path | None, GANTT] = None,
    slots: Annotated[str | None, SLOTS] = None,
    table: Annotated[str | None, TABLE_OUT] = None,
    tex: Annotated[bool, TEX] = False,
    as_json: AsJson = False,
) -> None:
    """Tabulate and draw one or several runs, or a batch as far as it is finished.

    For runs: loss and accuracy, and the costs of the devices.
    """
    tabulated = TableRequest.take(options, table, tex=tex, as_json=as_json)
    asked = FigureRequest.take(options, out, metric, tabulated)
    powers = take_powers(options)
    if usage_csv is not None:
        check_writable(usage_csv)
    if slots is not None and gantt is None:
        raise NoEffectError("slots", slots, "without --gantt")
    if gantt is not None:
        check_picture_path(gantt, option="gantt")
    if any(BatchFolder(path).is_batch for path in runs):
        if powers is not None or per_device or usage_csv is not None or gantt is not None:
            raise UserError("costs are shown for runs, not for a batch: name folders in its runs/")
        _show_batch(runs, asked, tabulated, as_json)
        return
    for path in runs:
        _refuse_folder_of_runs(path)
    saved = [SavedRun.read(path) for path in runs]
    figure = asked.of_runs(saved, powers)
    made = None if tabulated is None else tabulated.of_runs(saved, powers)
    costs = [run.costs(powers) for run in saved]
    # A notice, no refusal: each run has a row and a curve of its own, so nothing is averaged.
    uses = [run.data._replace(run=str(run.path)) for run in saved]
    for source, hashes in changed_sources(uses).items():
        print(changed_data_text(source, hashes), file=sys.stderr)
    if as_json:
        print(json_text([run_as_dict(run, own, per_device) for run, own in zip(saved, costs, strict=True)]))
    elif tabulated is None or not tabulated.prints:
        table_console().print(*run_tables(saved, costs, per_device=per_device))
    if tabulated is not None and made is not None:
        tabulated.write(made)
    asked.write(figure)
    if gantt is not None:
        _write_slots(saved, gantt, slots)
    if usage_csv is not None:
        known = {str(run.path): own for run, own in zip(saved, costs, strict=True) if own}
        write_atomically(usage_csv, device_csv(known))
        print(f"wrote {usage_csv}", file=sys.stderr)


def _write_slots(saved: list[SavedRun], path: Path, slots: str | None) -> None:
    """Draw plan and measurement of the only run, which is a live one."""
    measured = saved[0].measured
    if len(saved) > 1 or measured is None:
        raise InputError("gantt", path, "used with one live run that has completed a round")
    window = whole_window(measured).cut(USUAL_OVERLAY) if slots is None else window_of(slots, measured)
    if window.slots > MOST_SLOTS:
        raise InputError("slots", slots, f"at most {MOST_SLOTS:,} slots")
    write_overlay(saved[0].config.simulate(), _channel_uses(saved[0].path, measured), path, window)
    print(f"wrote {path}", file=sys.stderr)


def _channel_uses(run: Path, measured: Timeline) -> list[ChannelUse]:
    """Return what became of the uplinks of a live run: as its record of slots says, if it has one."""
    recorded = read_uses(run / FILE)
    if recorded is None:
        return channel_uses(measured)
    return [ChannelUse(use.device, use.first, use.end, use.outcome) for use in recorded]


def _refuse_folder_of_runs(path: Path) -> None:
    """Raise a UserError that names a run or a batch inside a folder that is neither."""
    if has_run(path) or not path.is_dir():
        return
    inside = [child for child in sorted(path.iterdir()) if has_run(child) or BatchFolder(child).is_batch]
    if inside:
        hint = f"name one, such as {inside[0]}, or see all with slotwise explore {path}"
        raise UserError(f"{path}: not a run or a batch, but a folder of them: {hint}")


def _show_batch(
    folders: list[Path], asked: FigureRequest, tabulated: TableRequest | None, as_json: bool
) -> None:
    if len(folders) > 1:
        raise UserError(f"{folders[0]} and others: a batch is shown by itself")
    results = BatchResults.read(BatchFolder(folders[0]))
    figure = None
    if asked.out is not None:
        figure = results.curve_figure(asked.metric, asked.options, asked.slot_seconds)
        figure = asked.options.applied(figure)
    made = None if tabulated is None else tabulated.of_batch(results)
    if as_json:
        columns = results.columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        print(json_text(rows))
    elif tabulated is None or not tabulated.prints:
        table_console().print(results_table(results))
    if tabulated is not None and made is not None:
        tabulated.write(made)
    asked.write(figure)


RUNS = Parameter(
    help="Folder of runs, batches and recommendations to browse; new runs are written there. "
    "Default: new runs are written to runs/."
)
PORT = output("Port on this machine. Default: 8337, or a free one if that is taken.", converter=whole_number)


def explore(
    runs: Annotated[Path | None, RUNS] = None,
    /,
    *,
    port: Annotated[int | None, PORT] = None,
    no_browser: Annotated[bool, output("Do not open a web browser; print the address only.")] = False,
) -> None:
    """Explore schedules in a web browser: drag the group size and watch rounds and staleness.

    The page also trains what it shows, and browses the runs in a folder. It is served on this machine only,
    until Ctrl-C. Needs the extra web: pip install 'slotwise[web]'.
    """
    from slotwise.web.web_server import explore as serve_explorer  # noqa: PLC0415  (show does without)

    def announce(address: str) -> None:
        print(f"slotwise explorer at {address} (Ctrl-C ends it)", flush=True)

    serve_explorer(runs, port=port, browser=not no_browser, ready=announce)
