"""The table of a sweep, for a terminal and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.batch.table import Figures, PointResult, SweepResults


def results_table(results: SweepResults) -> Table:
    """A row for each combination: means over its finished seeds."""
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption="means over the finished seeds; loss and acc: over the last tenth of the slots; "
        "stale: mean age of an update, in rounds",
        caption_justify="left",
    )
    for axis in results.axes:
        table.add_column(axis.title, justify="right" if axis.numeric else "left", overflow="fold")
    for heading in ("seeds", "loss", "acc", "rounds", "updates", "stale", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for labels, seeds in results.combinations.items():
        finished = [result.figures for result in seeds if result.figures]
        table.add_row(*labels, f"{len(finished)}/{len(seeds)}", *_cells(finished))
    return table


def _cells(finished: Sequence[Figures]) -> list[str]:
    if not finished:
        return ["–"] * 6
    mean = Figures(*map(fmean, zip(*finished, strict=True)))
    return [
        f"{mean.final_loss:.4f}",
        f"{mean.final_accuracy:.1%}",
        f"{mean.rounds:,.0f}",
        f"{mean.updates:,.0f}",
        f"{mean.mean_staleness:.2f}",
        f"{mean.seconds:,.0f}",
    ]


def results_json(results: SweepResults) -> list[dict[str, Any]]:
    """A document for each point."""
    names = [axis.name for axis in results.axes]
    return [_document(names, result) for result in results.results]


def _document(names: Sequence[str], result: PointResult) -> dict[str, Any]:
    return {
        **dict(zip(names, result.point.values, strict=True)),
        "seed": result.point.seed,
        "status": result.status,
        "run": result.point.run,
        "figures": result.figures._asdict() if result.figures else None,
    }
