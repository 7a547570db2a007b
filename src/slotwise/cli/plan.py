"""slotwise plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.cli.fleet_options import FLEET, FleetFlags
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import (
    CHANNEL,
    OUTPUT,
    BatchSize,
    ComputeSlots,
    Json,
    LinkSlots,
    LocalSteps,
    SamplesPerSlot,
    devices_option,
    slots_of_training,
)
from slotwise.cli.plan_fleet import fleet_table
from slotwise.cli.power_options import PowerOptions
from slotwise.cli.spending_tables import SpendingRow, spending_table
from slotwise.cli.terminal import table_console
from slotwise.planning import FleetPlan, Plan, PlanTable
from slotwise.planning import plan as plans_of

USUAL_DEVICES = 100


@with_option_groups
def plan(
    *,
    devices: Annotated[int | None, devices_option(USUAL_DEVICES)] = None,
    compute_slots: ComputeSlots = None,
    link_slots: LinkSlots = 1,
    deadline: Annotated[
        int, typer.Option(help="T, the slots available for training.", rich_help_panel=CHANNEL)
    ] = 50_000,
    group_size: Annotated[
        list[int] | None,
        typer.Option(
            help="S, uplinks per round; repeat for several. Default: all divisors of N.",
            rich_help_panel=CHANNEL,
        ),
    ] = None,
    local_steps: LocalSteps = 5,
    batch_size: BatchSize = 64,
    samples_per_slot: SamplesPerSlot = None,
    fleet: FleetFlags,
    seed: Annotated[int, typer.Option(help="Of the fleet.", rich_help_panel=FLEET)] = 0,
    power: PowerOptions,
    usage: Annotated[
        bool,
        typer.Option(
            "--usage",
            help="What the devices of every schedule spend their slots on; without it that is shown for idfl "
            "alone. Powers imply it.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """What every group size costs: rounds, staleness, the intentional delay that is free, slots and joules.

    The defaults are the MNIST case of the paper (50 compute slots). With a fleet every schedule is simulated,
    and intentional delay is just in time for each device.
    """
    fleet.refuse_beside(compute_slots, samples_per_slot)
    slots = slots_of_training(compute_slots, samples_per_slot, local_steps, batch_size, default=50)
    count, options = fleet.options(devices, USUAL_DEVICES, link_slots)
    powers = power.powers()
    table = plans_of(
        devices=count,
        compute_slots=slots,
        link_slots=link_slots,
        deadline=deadline,
        group_sizes=group_size or None,
        fleet=options,
        seed=seed,
        usage=usage if usage or as_json else None,
        powers=powers,
    )
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in table], indent=2))
    else:
        _print_plans(table)


def _print_plans(table: PlanTable) -> None:
    console = table_console()
    unequal = [row for row in table if isinstance(row, FleetPlan)]
    equal = [row for row in table if isinstance(row, Plan)]
    console.print(fleet_table(unequal) if unequal else _table(equal))
    if table[0].costs:
        console.print(_spending_table(table))
    else:
        console.print("The devices' slots are too many to be counted unasked: --usage does.")


def _spending_table(plans: Sequence[Plan | FleetPlan]) -> Table:
    rows = [
        SpendingRow((f"{plan.scenario.group_size:,}", name), costs)
        for plan in plans
        for name, costs in plan.costs.items()
    ]
    return spending_table(("group\nsize", "schedule"), rows, "What the devices spend")


def _table(plans: list[Plan]) -> Table:
    scenario = plans[0].scenario
    table = Table(
        title=f"{scenario.devices:,} devices, compute slots {scenario.compute_slots:,}, "
        f"link slots {scenario.link_slots:,}, deadline {scenario.deadline:,}",
        title_justify="left",
        caption=_caption(plans),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    for heading in ("group\nsize", "groups", "slots/\nround", "rounds", "models"):
        table.add_column(heading, justify="right", overflow="fold")
    for heading in ("staleness\nasync", "free\ndelay", "staleness\nidfl", "sync\nslots", "sync\nrounds"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in plans:
        cells = [_cell(value) for value in row.figures().values()]
        table.add_row(*cells, style=None if row.fits else "dim strike")
    return table


def _cell(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _caption(plans: list[Plan]) -> str:
    lines = [
        "staleness: the oldest update applied, in rounds; free delay: rounds a device may wait at no cost"
    ]
    late = [str(p.scenario.group_size) for p in plans if not p.fits]
    if late:
        lines.append(f"ruled out by the deadline (no round ends in time): group size {', '.join(late)}")
    uneven = [str(p.scenario.group_size) for p in plans if not p.scenario.divides]
    if uneven:
        lines.append(
            f"group size {', '.join(uneven)} does not divide {plans[0].scenario.devices}: rounds and delay "
            "from the exact schedule, slots per round in the long run"
        )
    return "\n".join(lines)
