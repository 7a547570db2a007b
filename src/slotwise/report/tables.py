"""Tables for a terminal: plans, runs, and the costs of devices, which are also text, JSON and CSV here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

from slotwise.report.number_text import amount_text, loss_text, percent
from slotwise.runs import SavedRun
from slotwise.schedule.costs import Costs, Spread
from slotwise.setting.access_plan import AccessPlan
from slotwise.setting.planning import FleetPlan, Plan, PlanTable

TABLE_WIDTH = 80
SHARES = ("computing", "sending", "receiving", "idle")
EXPLANATION = "computing to idle: share of the devices' time; air time: slots in which a device sends"
PLAN_COLUMNS = (
    *("group\nsize", "groups", "slots/\nround", "rounds", "models"),
    *("staleness\nasync", "free\ndelay", "staleness\nidfl", "sync\nslots", "sync\nrounds"),
)
FLEET_COLUMNS = (
    *("group\nsize", "sync\nrounds", "async\nrounds", "async\nstale"),
    *("idfl\nrounds", "idfl\nstale", "async\nlost"),
)
FLEET_CAPTION = (
    "simulated; stale: mean age of the updates applied, in rounds; idfl: delay auto\n"
    "lost: lost uplinks of async"
)
ACCESS_COLUMNS = (
    *("group\nsize", "access", "schedule", "seconds/\nround", "slots/\nuplink"),
    *("rounds", "updates", "lost", "mean\nstale"),
)
ACCESS_CAPTION = (
    "simulated; slots/uplink: of those that arrived; lost: lost uplinks\n"
    "stale: age of the updates applied, in rounds; idfl: delay auto"
)
BARS = "▁▂▃▄▅▆▇█"


def table_console() -> Console:
    """Return standard output, with at least the width that tables are made for.

    A narrow terminal wraps their lines, which stay readable; columns cut down to fit it would not.
    """
    console = Console()
    return console if console.width >= TABLE_WIDTH else Console(width=TABLE_WIDTH)


def _plain_table(
    title: str | None = None, caption: str | None = None, columns: Iterable[str] = (), *, gap: int = 1
) -> Table:
    """Return a table in the style of all tables, with columns of numbers and ``gap`` blanks between them."""
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, pad_edge=gap == 0, padding=(0, gap, 0, 0))
    table.title_justify = table.caption_justify = "left"
    for heading in columns:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def _cost_table(headings: Sequence[str], rows: Sequence[tuple[tuple[str, ...], Costs | None]]) -> Table:
    """Return a table with a row for each schedule or run; dashes where there are no costs."""
    known = [costs for _, costs in rows if costs is not None]
    energies = ["joules"] * any(costs.powers is not None for costs in known)
    energies += ["server\njoules"] * any(costs.server_joules is not None for costs in known)
    table = _plain_table("Costs of the devices", EXPLANATION)
    for heading in (*headings, *SHARES, "air time\nof each (mean)", *energies):
        is_name = heading in headings and not heading.endswith("size")
        justify: JustifyMethod = "left" if is_name else "right"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=heading in SHARES)
    for names, costs in rows:
        cells = ["–"] * 5 if costs is None else [*_shares(costs), _spread_text(costs.air_slots)]
        spent = (None, None) if costs is None else (costs.joules, costs.server_joules)
        joules = ["–" if energy is None else amount_text(energy) for energy in spent]
        table.add_row(*names, *cells, *joules[: len(energies)])
    return table


def device_table(costs: Costs, title: str) -> Table:
    """Return a table with a row for each device, and their sums."""
    columns = costs.columns()
    table = _plain_table(title, columns=columns)
    for row in costs.devices():
        table.add_row(*map(amount_text, row.values()))
    table.add_section()
    del columns["device"]
    table.add_row("all", *(amount_text(column.sum().item()) for column in columns.values()))
    return table


def columns_table(columns: Mapping[str, Any], title: str) -> Table:
    """Return a table of arrays, one per column, with a row for each entry."""
    table = _plain_table(title, columns=[name.replace("_", "\n") for name in columns])
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        table.add_row(*map(amount_text, row))
    return table


def _summary_table(costs: Costs, title: str) -> Table:
    """Return a table of all devices together, and of the least, mean and most of a device."""
    columns = costs.columns()
    del columns["device"]
    table = _plain_table(title, columns=["", *columns])
    table.add_row("share of their time", *_shares(costs), *[""] * (len(columns) - len(SHARES)))
    table.add_row("all together", *(amount_text(column.sum().item()) for column in columns.values()))
    spreads = [Spread.of(column) for column in columns.values()]
    for name, numbers in zip(("a device: least", "mean", "most"), zip(*spreads, strict=True), strict=True):
        table.add_row(name, *map(amount_text, numbers))
    return table


def cost_line(costs: Costs) -> str:
    """Return the costs as one line of text."""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in costs.shares.items())
    found = f"the devices' time: {shares}; air time of each: {_spread_text(costs.air_slots)} slots"
    if costs.joules is None:
        return found
    server = costs.server_joules
    beside = "" if server is None else f", and {amount_text(server)} joules of the server"
    return f"{found}; {amount_text(costs.joules)} joules in all{beside}"


def costs_as_dict(costs: Costs, per_device: bool) -> dict[str, Any]:
    """Return the costs for JSON, with or without every single device."""
    return costs.as_dict() | ({"devices": list(costs.devices())} if per_device else {})


def device_csv(costs: Mapping[str, Costs]) -> str:
    """Return CSV text with a row for each device of each run."""
    rows = [{"run": name, **row} for name, found in costs.items() for row in found.devices()]
    columns = list(rows[0]) if rows else ["run", "device", *SHARES, "away"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _spread_text(spread: Spread) -> str:
    """Return ``454``, or ``450–460 (455.2)`` where devices differ."""
    least, mean, most = map(amount_text, spread)
    return least if least == most else f"{least}–{most} ({mean})"


def _shares(costs: Costs) -> list[str]:
    return [f"{share:.1%}" for share in costs.shares.values()]


def plan_title(plan: Plan | FleetPlan) -> str:
    """Return a title with the parameters that all group sizes share."""
    scenario = plan.scenario
    channels = f"sub-channels {scenario.sub_channels:,}, " if scenario.sub_channels > 1 else ""
    channels += f"{scenario.duplex}, " if scenario.has_full_duplex else ""
    if isinstance(plan, FleetPlan):
        return f"{scenario.devices:,} {plan.devices}, {channels}deadline {scenario.deadline:,}"
    return (
        f"{scenario.devices:,} devices, compute slots {scenario.compute_slots:,}, "
        f"link slots {scenario.link_slots:,}, {channels}deadline {scenario.deadline:,}"
    )


def plan_tables(plans: PlanTable) -> Iterator[Table]:
    """Yield the table of rounds and staleness and, if they were computed, that of the costs."""
    unequal = isinstance(plans[0], FleetPlan)
    caption, columns = (FLEET_CAPTION, FLEET_COLUMNS) if unequal else (_plan_caption(plans), PLAN_COLUMNS)
    table = _plain_table(plan_title(plans[0]), caption, columns, gap=0)
    for plan in plans:
        if isinstance(plan, FleetPlan):
            sync, plain, delayed = (plan.schedules[name] for name in ("sync", "async", "idfl"))
            values = [plan.scenario.group_size, sync.rounds, plain.rounds, plain.mean_staleness]
            values += [delayed.rounds, delayed.mean_staleness, plain.lost]
        else:
            values = list(plan.figures().values())
        cells = (f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" for value in values)
        table.add_row(*cells, style=None if plan.fits else "dim strike")
    yield table
    if plans[0].costs:
        sizes = ((f"{plan.scenario.group_size:,}", plan.costs) for plan in plans)
        rows = [((size, name), costs) for size, every in sizes for name, costs in every.items()]
        yield _cost_table(("group\nsize", "schedule"), rows)


def access_table(plans: Sequence[AccessPlan]) -> Table:
    """Return a table of access schemes, with a rule below each group size."""
    scenario, has_joules = plans[0].scenario, any(plan.joules is not None for plan in plans)
    columns = [*ACCESS_COLUMNS, *["joules"] * has_joules]
    title = f"{scenario.devices:,} devices over radio, {scenario.duplex}, deadline {scenario.deadline:,}"
    table = _plain_table(title, ACCESS_CAPTION, columns, gap=0)
    table.columns[1].justify = table.columns[2].justify = "left"
    before: tuple[Any, ...] = ()
    for plan in plans:
        totals, seconds = plan.totals, plan.round_seconds
        size, access = f"{plan.scenario.group_size:,}", plan.access
        cells = [size if before[:1] != (size,) else "", access if before != (size, access) else ""]
        cells += [plan.schedule, "–" if seconds is None else f"{seconds:,.2f}", f"{plan.uplink_slots:,.1f}"]
        cells += [f"{number:,}" for number in (totals.rounds, totals.updates, totals.lost)]
        cells += [f"{totals.mean_staleness:.2f}"]
        cells += ["–" if plan.joules is None else amount_text(plan.joules)] * has_joules
        if before and before != (size, access):
            table.add_section()
        table.add_row(*cells)
        before = (size, access)
    return table


def _plan_caption(plans: Sequence[Plan | FleetPlan]) -> str:
    lines = [
        "staleness: the oldest update applied, in rounds; free delay: rounds a device may wait at no cost"
    ]
    late = [str(plan.scenario.group_size) for plan in plans if not plan.fits]
    if late:
        lines.append(f"ruled out by the deadline (no round ends in time): group size {', '.join(late)}")
    uneven = [str(plan.scenario.group_size) for plan in plans if not plan.scenario.divides]
    if uneven:
        lines.append(
            f"group size {', '.join(uneven)} does not divide {plans[0].scenario.devices}: rounds and delay "
            "from the exact schedule, slots per round in the long run"
        )
    return "\n".join(lines)


def run_as_dict(run: SavedRun, costs: Costs | None, per_device: bool = False) -> dict[str, Any]:
    """Return a run for JSON, with or without the costs of every single device."""
    size = run.config.channel
    return {
        "run": str(run.path),
        "status": run.status,
        "schedule": run.config.schedule,
        "group_size": size.group_size_text if size.group_size_changes else size.group_size,
        "seed": run.config.seed,
        "final": run.last and run.last._asdict(),
        "best": run.best and run.best._asdict(),
        "usage": costs and costs_as_dict(costs, per_device),
    }


def run_tables(
    runs: Sequence[SavedRun], costs: Sequence[Costs | None], *, per_device: bool = False
) -> Iterator[Table]:
    """Yield a table of the runs, and tables of their costs."""
    table = _plain_table()
    table.add_column("run", overflow="fold", min_width=14)
    for heading in ("status", "schedule", "S", "round", "slot", "loss", "acc", "loss curve"):
        is_text = heading in ("status", "schedule", "loss curve")
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold", no_wrap=True)
    for run in runs:
        figures = ["–"] * 4
        if (last := run.last) is not None:
            figures = [f"{last.round}", f"{last.slot}", loss_text(last.loss), percent(last.accuracy)]
        policy, size = run.config.schedule, run.config.channel.group_size_text
        curve = sparkline([point.loss for point in run.points])
        table.add_row(run.name, run.status, policy, size, *figures, curve)
    yield table
    if len(runs) > 1:
        yield _cost_table(("run",), [((run.name,), spent) for run, spent in zip(runs, costs, strict=True)])
    for run, spent in zip(runs, costs, strict=True):
        if spent is not None and (per_device or len(runs) == 1):
            title = f"{run.name}: costs of the devices in {spent.slots:,} slots"
            yield (device_table if per_device else _summary_table)(spent, title)


def sparkline(values: Sequence[float], width: int = 12) -> str:
    """Return a curve as one line of text, from its lowest to its highest value."""
    if not values:
        return ""
    step = max(1.0, len(values) / width)
    chosen = [values[min(len(values) - 1, int(i * step))] for i in range(min(width, len(values)))]
    low, high = min(chosen), max(chosen)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in chosen)
