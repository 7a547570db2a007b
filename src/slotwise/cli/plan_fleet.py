"""The table of `slotwise plan` for unequal devices."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.planning import FleetPlan


def fleet_table(plans: Sequence[FleetPlan]) -> Table:
    """A row for each group size."""
    scenario = plans[0].scenario
    table = Table(
        title=f"{scenario.devices:,} unequal devices, deadline {scenario.deadline:,}",
        title_justify="left",
        caption="simulated; stale: mean age of the updates applied, in rounds; idfl: just in time\n"
        "lost: uplinks in vain, of async",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    for heading in ("group\nsize", "sync\nrounds", "async\nrounds", "async\nstale"):
        table.add_column(heading, justify="right", overflow="fold")
    for heading in ("idfl\nrounds", "idfl\nstale", "async\nlost"):
        table.add_column(heading, justify="right", overflow="fold")
    for plan in plans:
        table.add_row(*_cells(plan), style=None if plan.fits else "dim strike")
    return table


def _cells(plan: FleetPlan) -> list[str]:
    sync, plain, delayed = (plan.schedules[name] for name in ("sync", "async", "idfl"))
    return [
        f"{plan.scenario.group_size:,}",
        f"{sync.rounds:,}",
        f"{plain.rounds:,}",
        f"{plain.mean_staleness:,.2f}",
        f"{delayed.rounds:,}",
        f"{delayed.mean_staleness:,.2f}",
        f"{plain.lost:,}",
    ]
