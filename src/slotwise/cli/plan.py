"""slotwise plan."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slotwise.cli.options import (
    CHANNEL,
    FLEET,
    BatchSize,
    ComputeDistribution,
    ComputeSlots,
    Devices,
    FleetFile,
    Jitter,
    Json,
    LinkDistribution,
    LinkSlots,
    LocalSteps,
    Loss,
    MeanAway,
    MeanPresent,
    RetransmissionName,
    SamplesPerSlot,
    UplinkSlots,
    fleet_options,
    slots_of_training,
)
from slotwise.cli.plan_fleet import print_fleet_plan
from slotwise.errors import InputError
from slotwise.plan import Plan, plan_fleet, plan_scenarios, scenarios_of


def plan(
    devices: Devices = 100,
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
    compute_distribution: ComputeDistribution = None,
    link_distribution: LinkDistribution = None,
    fleet_file: FleetFile = None,
    uplink_slots: UplinkSlots = None,
    jitter: Jitter = None,
    loss: Loss = None,
    retransmission: RetransmissionName = None,
    mean_present: MeanPresent = None,
    mean_away: MeanAway = None,
    seed: Annotated[int, typer.Option(help="Of the fleet.", rich_help_panel=FLEET)] = 0,
    as_json: Json = False,
) -> None:
    """What every group size costs: rounds, staleness, and the intentional delay that is free.

    The defaults are the MNIST case of the paper (50 compute slots). With a fleet every schedule is simulated,
    and intentional delay is just in time for each device.
    """
    given = locals()
    slots = slots_of_training(compute_slots, samples_per_slot, local_steps, batch_size, default=50)
    count, options = fleet_options(given, devices, link_slots)
    scenarios = scenarios_of(
        devices=count,
        compute_slots=slots,
        link_slots=link_slots,
        deadline=deadline,
        group_sizes=group_size or None,
    )
    fleet = options.fleet(scenarios[0], seed)
    if fleet is not None and not fleet.is_equal_to(scenarios[0]):
        print_fleet_plan(plan_fleet(scenarios, fleet, seed=seed), as_json=as_json)
        return
    plans = plan_scenarios(scenarios)
    if not any(p.fits for p in plans):
        shortest = min(p.scenario.compute_slots + p.scenario.communication_slots for p in plans)
        raise InputError("deadline", deadline, f"at least {shortest}, the slots of the shortest first round")
    if as_json:
        typer.echo(json.dumps([p.as_dict() for p in plans], indent=2))
    else:
        Console().print(_table(plans))


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
        cells = [_cell(value) for value in row.as_dict().values()]
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
