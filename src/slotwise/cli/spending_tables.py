"""What the devices spend, for a terminal and for a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.cli.options import OUTPUT
from slotwise.costs import Costs, Spread

SHARES = ("computing", "sending", "receiving", "idle")
WORDS = "computing to idle: share of the devices' time; air time: slots in which a device sends"

PerDevice = Annotated[
    bool,
    typer.Option(
        "--per-device", help="Slots and joules of every single device, too.", rich_help_panel=OUTPUT
    ),
]
UsageCsv = Annotated[
    Path | None,
    typer.Option(
        help="Write slots and joules of every single device: FILE.csv.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True)
class SpendingRow:
    """One schedule of a table: what it is called, column by column, and what it spends."""

    names: tuple[str, ...]
    spending: Costs | None


def spending_table(headings: Sequence[str], rows: Sequence[SpendingRow], title: str | None = None) -> Table:
    """A row for each schedule; one that has nothing to count gets dashes."""
    with_joules = any(row.spending is not None and row.spending.powers is not None for row in rows)
    table = Table(
        title=title,
        title_justify="left",
        caption=WORDS,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading.endswith("size") else "left")
    for heading in (*SHARES, "air time\nof each (mean)", *["joules"] * with_joules):
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        cells = ["–"] * 5 if row.spending is None else _cells(row.spending)
        table.add_row(*row.names, *cells, *[_joules(row.spending)] * with_joules)
    return table


def device_table(spending: Costs, title: str) -> Table:
    """Every device, and what they come to together."""
    rows = list(spending.devices())
    table = _table_of(["device", *list(rows[0])[1:]], title)
    for row in rows:
        table.add_row(*map(number_text, row.values()))
    table.add_section()
    sums = [number_text(sum(row[name] for row in rows)) for name in list(rows[0])[1:]]
    table.add_row("all", *sums)
    return table


def summary_table(spending: Costs, title: str) -> Table:
    """All devices together, and of each the least, the mean and the most."""
    columns = spending.columns()
    del columns["device"]
    table = _table_of(["", *columns], title)
    shares = [f"{share:.1%}" for share in spending.shares.values()]
    table.add_row("share of their time", *shares, *[""] * (len(columns) - len(shares)))
    table.add_row("all together", *(number_text(column.sum().item()) for column in columns.values()))
    spreads = [Spread.of(column) for column in columns.values()]
    for name, numbers in zip(("a device: least", "mean", "most"), zip(*spreads, strict=True), strict=True):
        table.add_row(name, *map(number_text, numbers))
    return table


def _table_of(headings: Sequence[str], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def spending_line(spending: Costs) -> str:
    """The same in a sentence."""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in spending.shares.items())
    found = f"the devices' time: {shares}; air time of each: {spread_text(spending.air_slots)} slots"
    return found if spending.joules is None else f"{found}; {number_text(spending.joules)} joules in all"


def usage_as_dict(spending: Costs, per_device: bool) -> dict[str, Any]:
    """For JSON, with or without every single device."""
    return spending.as_dict() | ({"devices": list(spending.devices())} if per_device else {})


def device_csv(spendings: Mapping[str, Costs]) -> str:
    """A row for each device of each run."""
    rows = [{"run": name, **row} for name, spending in spendings.items() for row in spending.devices()]
    return _csv(rows)


def spread_text(spread: Spread) -> str:
    """``454``, or ``450–460 (455.2)`` where devices differ."""
    least, mean, most = map(number_text, spread)
    return least if least == most else f"{least}–{most} ({mean})"


def number_text(number: float) -> str:
    """Whole numbers and large ones in full, small ones with four digits."""
    return f"{number:,.0f}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.4g}"


def _cells(spending: Costs) -> list[str]:
    shares = [f"{share:.1%}" for share in spending.shares.values()]
    return [*shares, spread_text(spending.air_slots)]


def _joules(spending: Costs | None) -> str:
    return "–" if spending is None or spending.joules is None else number_text(spending.joules)


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    lines = list(rows)
    headings = list(lines[0]) if lines else ["run", "device", *SHARES, "away"]
    writer = csv.DictWriter(text, headings, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
