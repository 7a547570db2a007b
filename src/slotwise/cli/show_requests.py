"""The figure and the table for a paper that `slotwise show` is asked for."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slotwise.base.errors import ConflictError, InputError, MissingError, UserError
from slotwise.base.files import check_writable, write_atomically
from slotwise.batch.results import BatchResults, read_run
from slotwise.batch.summary import Row, TableOptions, batch_table, summary_table
from slotwise.options.checks import option_names
from slotwise.report.curves import CurveFigure
from slotwise.report.figure_options import FigureOptions
from slotwise.report.paper_table import TABLE_SUFFIXES, PaperTable, TableKind
from slotwise.report.plotting import (
    check_style,
    curves_figure,
    curves_of,
    draw_curves,
    grouped_runs,
    picture_kind,
)
from slotwise.report.spread import Spread
from slotwise.runs import SavedRun
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
