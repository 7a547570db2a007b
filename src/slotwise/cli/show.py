"""slotwise show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slotwise.cli.options import OUTPUT, Json
from slotwise.cli.sweep_table import results_json, results_table
from slotwise.errors import InputError, UserError
from slotwise.files import check_writable, write_atomically
from slotwise.learning import Point
from slotwise.report.curve_figures import draw_figure
from slotwise.report.curves import draw_curves, sparkline
from slotwise.runs import RunFolder, RunParameters
from slotwise.sweep.figure import sweep_figure
from slotwise.sweep.folder import SweepFolder
from slotwise.sweep.table import read_results

KINDS = ("png", "svg", "pdf")


def show(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that slotwise train made, or one that slotwise sweep made.", metavar="RUN..."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Draw the curves: FILE.png, .svg or .pdf.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Json = False,
) -> None:
    """Tabulate and draw one or several runs, or a sweep as far as it has come."""
    kind = _kind(out) if out else ""
    if out is not None:
        check_writable(out)
    if any(SweepFolder(path).is_sweep for path in runs):
        _show_sweep(runs, out, kind, as_json=as_json)
        return
    folders = [RunFolder.open(path) for path in runs]
    rows = [(folder, folder.parameters(), folder.points()) for folder in folders]
    if as_json:
        typer.echo(json.dumps([_summary(*row) for row in rows], indent=2))
    else:
        Console().print(_table(rows))
    if out is not None:
        curves = {_name(runs, folder, parameters): points for folder, parameters, points in rows}
        write_atomically(out, draw_curves(curves, kind))
        typer.echo(f"wrote {out}", err=True)


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
        Console().print(results_table(results))
    if out is not None:
        write_atomically(out, draw_figure(figure, kind))
        typer.echo(f"wrote {out}", err=True)


def _kind(out: Path) -> str:
    kind = out.suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise InputError("out", out, "a file that ends in .png, .svg or .pdf")
    return kind


def _name(runs: list[Path], folder: RunFolder, parameters: RunParameters) -> str:
    """The folder's name; its path where several have the same."""
    names = [path.resolve().name for path in runs]
    name = folder.path.resolve().name
    shown = name if names.count(name) == 1 else str(folder.path)
    return f"{shown}: {parameters.schedule} S={parameters.group_size}"


def _summary(folder: RunFolder, parameters: RunParameters, points: list[Point]) -> dict[str, Any]:
    return {
        "run": str(folder.path),
        "status": folder.status,
        "schedule": parameters.schedule,
        "group_size": parameters.group_size,
        "seed": parameters.seed,
        "final": points[-1]._asdict() if points else None,
        "best": min(points, key=lambda p: p.loss)._asdict() if points else None,
    }


def _table(rows: list[tuple[RunFolder, RunParameters, list[Point]]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold", min_width=14)
    for heading in ("status", "schedule"):
        table.add_column(heading, no_wrap=True)
    for heading in ("S", "round", "slot", "loss", "acc"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("loss curve", no_wrap=True)
    for folder, parameters, points in rows:
        table.add_row(
            folder.path.resolve().name,
            folder.status,
            parameters.schedule,
            str(parameters.group_size),
            *_figures(points),
            sparkline([p.loss for p in points], width=12),
        )
    return table


def _figures(points: list[Point]) -> list[str]:
    if not points:
        return ["–"] * 4
    last = points[-1]
    return [f"{last.round}", f"{last.slot}", f"{last.loss:.4f}", f"{last.accuracy:.1%}"]
