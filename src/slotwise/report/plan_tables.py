"""Tables of plans for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from slotwise.planning import FleetPlan, Plan, PlanTable
from slotwise.report.cost_tables import CostRow, add_columns, cost_table, plain_table
from slotwise.scenario import Scenario

PLAN_COLUMNS = (
    *("group\nsize", "groups", "slots/\nround", "rounds", "models"),
    *("staleness\nasync", "free\ndelay", "staleness\nidfl", "sync\nslots", "sync\nrounds"),
)
FLEET_COLUMNS = (
    *("group\nsize", "sync\nrounds", "async\nrounds", "async\nstale"),
    *("idfl\nrounds", "idfl\nstale", "async\nlost"),
)


def plan_title(scenario: Scenario) -> str:
    """Return a title with the parameters that all group sizes share."""
    return (
        f"{scenario.devices:,} devices, compute slots {scenario.compute_slots:,}, "
        f"link slots {scenario.link_slots:,}, deadline {scenario.deadline:,}"
    )


def plan_table(plans: Sequence[Plan]) -> Table:
    """Return the plan of equal devices, with a row for each group size."""
    table = plain_table(plan_title(plans[0].scenario), _caption(plans), gap=0)
    add_columns(table, PLAN_COLUMNS)
    for plan in plans:
        cells = map(_cell, plan.figures().values())
        table.add_row(*cells, style=None if plan.fits else "dim strike")
    return table


def fleet_plan_table(plans: Sequence[FleetPlan]) -> Table:
    """Return the plan of unequal devices, with a row for each group size."""
    scenario = plans[0].scenario
    table = plain_table(
        f"{scenario.devices:,} unequal devices, deadline {scenario.deadline:,}",
        "simulated; stale: mean age of the updates applied, in rounds; idfl: just in time\n"
        "lost: lost uplinks of async",
        gap=0,
    )
    add_columns(table, FLEET_COLUMNS)
    for plan in plans:
        sync, plain, delayed = (plan.schedules[name] for name in ("sync", "async", "idfl"))
        cells = (plan.scenario.group_size, sync.rounds, plain.rounds, plain.mean_staleness)
        more = (delayed.rounds, delayed.mean_staleness, plain.lost)
        table.add_row(*map(_cell, (*cells, *more)), style=None if plan.fits else "dim strike")
    return table


def plan_cost_table(plans: Iterable[Plan | FleetPlan]) -> Table:
    """Return the costs of every group size and schedule for which they were computed."""
    rows = [
        CostRow((f"{plan.scenario.group_size:,}", name), costs)
        for plan in plans
        for name, costs in plan.costs.items()
    ]
    return cost_table(("group\nsize", "schedule"), rows, "Costs of the devices")


def plan_tables(plans: PlanTable) -> Iterator[Table]:
    """Return the table of rounds and staleness and, if they were computed, that of the costs."""
    unequal = [plan for plan in plans if isinstance(plan, FleetPlan)]
    yield fleet_plan_table(unequal) if unequal else plan_table([p for p in plans if isinstance(p, Plan)])
    if plans[0].costs:
        yield plan_cost_table(plans)


def _cell(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _caption(plans: Sequence[Plan]) -> str:
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
