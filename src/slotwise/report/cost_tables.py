"""Costs of devices as tables for a terminal, as one line of text, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slotwise.costs import Costs, Spread

TABLE_WIDTH = 80
SHARES = ("computing", "sending", "receiving", "idle")
EXPLANATION = "computing to idle: share of the devices' time; air time: slots in which a device sends"


def table_console() -> Console:
    """Return standard output, with at least the width that tables are made for.

    A narrow terminal wraps their lines, which stay readable; columns cut down to fit it would not.
    """
    console = Console()
    return console if console.width >= TABLE_WIDTH else Console(width=TABLE_WIDTH)


def plain_table(title: str | None = None, caption: str | None = None, *, gap: int = 1) -> Table:
    """Return an empty table in the style of all tables, with ``gap`` blanks between columns."""
    return Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=gap == 0,
        padding=(0, gap, 0, 0),
    )


def add_columns(
    table: Table, headings: Iterable[str], justify: Literal["left", "right"] = "right", *, wrap: bool = True
) -> None:
    """Add columns to a table; their cells are wrapped if they are too wide, unless ``wrap`` is false."""
    for heading in headings:
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=not wrap)


class CostRow(NamedTuple):
    """One row of `cost_table`: the names in its first columns, and costs if there are any."""

    names: tuple[str, ...]
    costs: Costs | None


def cost_table(headings: Sequence[str], rows: Sequence[CostRow], title: str | None = None) -> Table:
    """Return a table with a row for each schedule or run; dashes where there are no costs."""
    with_joules = any(row.costs is not None and row.costs.powers is not None for row in rows)
    table = plain_table(title, EXPLANATION)
    for heading in headings:
        add_columns(table, [heading], "right" if heading.endswith("size") else "left")
    add_columns(table, (*SHARES, "air time\nof each (mean)", *["joules"] * with_joules))
    for names, costs in rows:
        cells = ["–"] * 5 if costs is None else [*_shares(costs), spread_text(costs.air_slots)]
        joules = "–" if costs is None or costs.joules is None else number_text(costs.joules)
        table.add_row(*names, *cells, *[joules] * with_joules)
    return table


def device_table(costs: Costs, title: str) -> Table:
    """Return a table with a row for each device, and their sums."""
    columns = costs.columns()
    table = plain_table(title)
    add_columns(table, columns)
    for row in costs.devices():
        table.add_row(*map(number_text, row.values()))
    table.add_section()
    del columns["device"]
    table.add_row("all", *(number_text(column.sum().item()) for column in columns.values()))
    return table


def summary_table(costs: Costs, title: str) -> Table:
    """Return a table of all devices together, and of the least, mean and most of a device."""
    columns = costs.columns()
    del columns["device"]
    table = plain_table(title)
    add_columns(table, ["", *columns])
    table.add_row("share of their time", *_shares(costs), *[""] * (len(columns) - len(SHARES)))
    table.add_row("all together", *(number_text(column.sum().item()) for column in columns.values()))
    spreads = [Spread.of(column) for column in columns.values()]
    for name, numbers in zip(("a device: least", "mean", "most"), zip(*spreads, strict=True), strict=True):
        table.add_row(name, *map(number_text, numbers))
    return table


def cost_line(costs: Costs) -> str:
    """Return the costs as one line of text."""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in costs.shares.items())
    found = f"the devices' time: {shares}; air time of each: {spread_text(costs.air_slots)} slots"
    return found if costs.joules is None else f"{found}; {number_text(costs.joules)} joules in all"


def costs_as_dict(costs: Costs, per_device: bool) -> dict[str, Any]:
    """Return the costs for JSON, with or without every single device."""
    return costs.as_dict() | ({"devices": list(costs.devices())} if per_device else {})


def device_csv(costs: Mapping[str, Costs]) -> str:
    """Return CSV text with a row for each device of each run."""
    rows = [{"run": name, **row} for name, found in costs.items() for row in found.devices()]
    text = io.StringIO()
    writer = csv.DictWriter(
        text, list(rows[0]) if rows else ["run", "device", *SHARES, "away"], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def spread_text(spread: Spread) -> str:
    """Return ``454``, or ``450–460 (455.2)`` where devices differ."""
    least, mean, most = map(number_text, spread)
    return least if least == most else f"{least}–{most} ({mean})"


def number_text(number: float) -> str:
    """Return integers and large numbers in full, small ones with four digits."""
    return f"{number:,.0f}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.4g}"


def _shares(costs: Costs) -> list[str]:
    return [f"{share:.1%}" for share in costs.shares.values()]
