"""slotwise show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.batch.figure import sweep_figure
from slotwise.batch.folder import SweepFolder
from slotwise.batch.table import read_results
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import OUTPUT, Json, picture_kind
from slotwise.cli.power_options import PowerOptions
from slotwise.cli.spending_tables import (
    PerDevice,
    SpendingRow,
    UsageCsv,
    device_csv,
    device_table,
    spending_table,
    summary_table,
    usage_as_dict,
)
from slotwise.cli.sweep_table import results_json, results_table
from slotwise.cli.terminal import table_console
from slotwise.costs import Costs, Powers
from slotwise.errors import UserError
from slotwise.files import check_writable, write_atomically
from slotwise.learning import Point
from slotwise.report.curve_figures import draw_figure
from slotwise.report.curves import draw_curves, sparkline
from slotwise.runs import RunConfig, RunFolder
from slotwise.schedule import Timeline


@dataclass(frozen=True)
class _Shown:
    """One run as it stands."""

    folder: RunFolder
    parameters: RunConfig
    points: list[Point]
    spending: Costs | None

    @classmethod
    def read(cls, path: Path, powers: Powers | None) -> _Shown:
        """What the devices have spent is counted up to the last evaluation."""
        folder = RunFolder.open(path)
        parameters, points = folder.parameters(), folder.points()
        done = points[-1].round if points else 0
        played = _played(folder, parameters, done) if done else None
        return cls(folder, parameters, points, None if played is None else Costs.of(played, powers))

    @property
    def name(self) -> str:
        """Of the folder."""
        return self.folder.path.resolve().name


@with_option_groups
def show(
    *,
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that slotwise train made, or one that slotwise sweep made.", metavar="RUN..."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Draw the curves: FILE.png, .svg or .pdf.", rich_help_panel=OUTPUT)
    ] = None,
    power: PowerOptions,
    per_device: PerDevice = False,
    usage_csv: UsageCsv = None,
    as_json: Json = False,
) -> None:
    """Tabulate and draw one or several runs, or a sweep as far as it has come.

    Of a run: loss and accuracy, and what the devices have spent.
    """
    kind = picture_kind(out) if out else ""
    for path in (out, usage_csv):
        if path is not None:
            check_writable(path)
    powers = power.powers()
    if any(SweepFolder(path).is_sweep for path in runs):
        if powers is not None or per_device or usage_csv is not None:
            raise UserError("what devices spend is shown of runs, not of a sweep: name a folder in its runs/")
        _show_sweep(runs, out, kind, as_json=as_json)
        return
    rows = [_Shown.read(path, powers) for path in runs]
    if as_json:
        typer.echo(json.dumps([_summary(row, per_device) for row in rows], indent=2))
    else:
        _print(rows, per_device)
    if out is not None:
        curves = {_label(rows, row): row.points for row in rows}
        write_atomically(out, draw_curves(curves, kind))
        typer.echo(f"wrote {out}", err=True)
    if usage_csv is not None:
        _write_csv(usage_csv, rows)


def _played(folder: RunFolder, parameters: RunConfig, rounds: int) -> Timeline | None:
    """The beginning of the schedule; None if a live run did not keep to it: then nobody has counted."""
    timeline = parameters.simulate()
    if rounds > timeline.rounds:
        raise UserError(f"{folder.path}: its history.csv and its run.json are not of the same run")
    planned, measured = timeline.first(rounds), folder.path / "timeline.json"
    if measured.is_file():
        happened = Timeline.from_json(measured.read_text(encoding="utf-8"))
        return planned if happened.first(rounds) == planned else None
    return planned


def _show_sweep(runs: list[Path], out: Path | None, kind: str, *, as_json: bool) -> None:
    if len(runs) > 1:
        raise UserError(f"{runs[0]} and others: a sweep is shown by itself")
    results = read_results(SweepFolder(runs[0]))
    figure = sweep_figure(results)
    if out is not None and not figure.panels:
        raise UserError(f"{runs[0]}: no point has been evaluated yet; there is nothing to draw")
    if as_json:
        typer.echo(json.dumps(results_json(results), indent=2))
    else:
        table_console().print(results_table(results))
    if out is not None:
        write_atomically(out, draw_figure(figure, kind))
        typer.echo(f"wrote {out}", err=True)


def _print(rows: Sequence[_Shown], per_device: bool) -> None:
    console = table_console()
    console.print(_table(rows))
    if len(rows) > 1:
        spent = [SpendingRow((row.name,), row.spending) for row in rows]
        console.print(spending_table(("run",), spent, "What the devices have spent"))
    for row in rows:
        if row.spending is not None and (per_device or len(rows) == 1):
            title = f"{row.name}: what the devices have spent in {row.spending.slots:,} slots"
            console.print((device_table if per_device else summary_table)(row.spending, title))


def _write_csv(path: Path, rows: Sequence[_Shown]) -> None:
    spendings = {str(row.folder.path): row.spending for row in rows if row.spending is not None}
    write_atomically(path, device_csv(spendings))
    typer.echo(f"wrote {path}", err=True)


def _label(rows: Sequence[_Shown], row: _Shown) -> str:
    """The folder's name; its path where several have the same."""
    names = [other.name for other in rows]
    shown = row.name if names.count(row.name) == 1 else str(row.folder.path)
    return f"{shown}: {row.parameters.policy.schedule} S={row.parameters.channel.group_size}"


def _summary(row: _Shown, per_device: bool) -> dict[str, Any]:
    parameters, points = row.parameters, row.points
    return {
        "run": str(row.folder.path),
        "status": row.folder.status,
        "schedule": parameters.policy.schedule,
        "group_size": parameters.channel.group_size,
        "seed": parameters.seed,
        "final": points[-1]._asdict() if points else None,
        "best": min(points, key=lambda p: p.loss)._asdict() if points else None,
        "usage": None if row.spending is None else usage_as_dict(row.spending, per_device),
    }


def _table(rows: Sequence[_Shown]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold", min_width=14)
    for heading in ("status", "schedule"):
        table.add_column(heading, no_wrap=True)
    for heading in ("S", "round", "slot", "loss", "acc"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("loss curve", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            row.folder.status,
            row.parameters.policy.schedule,
            str(row.parameters.channel.group_size),
            *_figures(row.points),
            sparkline([p.loss for p in row.points], width=12),
        )
    return table


def _figures(points: list[Point]) -> list[str]:
    if not points:
        return ["–"] * 4
    last = points[-1]
    return [f"{last.round}", f"{last.slot}", f"{last.loss:.4f}", f"{last.accuracy:.1%}"]
