"""slotwise timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slotwise.cli.fleet_options import FleetFlags
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import (
    OUTPUT,
    SCHEDULE,
    BatchSize,
    ComputeSlots,
    DelayText,
    GroupSize,
    Json,
    LinkSlots,
    LocalSteps,
    ParticipationName,
    SamplesPerSlot,
    ScheduleName,
    delay_of,
    devices_option,
    slots_of_training,
)
from slotwise.cli.power_options import PowerOptions
from slotwise.cli.spending_tables import PerDevice, device_table, spending_line, usage_as_dict
from slotwise.cli.terminal import table_console
from slotwise.costs import Costs
from slotwise.errors import InputError
from slotwise.report.gantt import check_picture_path, picture_window, write_gantt
from slotwise.report.gantt_text import gantt_text
from slotwise.report.window import Window, window_of
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, refuse_too_many_uplinks, simulate

USUAL_DEVICES = 6


@with_option_groups
def timeline(
    *,
    devices: Annotated[int | None, devices_option(USUAL_DEVICES)] = None,
    group_size: GroupSize = 2,
    compute_slots: ComputeSlots = None,
    link_slots: LinkSlots = 1,
    local_steps: LocalSteps = 5,
    batch_size: BatchSize = 64,
    samples_per_slot: SamplesPerSlot = None,
    schedule: ScheduleName = "async",
    delay: DelayText = "auto",
    participation: ParticipationName = "round-robin",
    fleet: FleetFlags,
    seed: Annotated[
        int, typer.Option(help="Of the random participation and of the fleet.", rich_help_panel=SCHEDULE)
    ] = 0,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many rounds. Default: two rounds per group, if there is no deadline.",
            rich_help_panel=SCHEDULE,
        ),
    ] = None,
    deadline: Annotated[int | None, typer.Option(help="Stop at this slot.", rich_help_panel=SCHEDULE)] = None,
    slots: Annotated[
        str | None,
        typer.Option(
            metavar="A:B",
            help="Show slots A to B-1 only; A: and :B are allowed. Default: as many as fit.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    power: PowerOptions,
    per_device: PerDevice = False,
    as_json: Json = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw a picture instead: FILE.svg, .png or .html.", rich_help_panel=OUTPUT
        ),
    ] = None,
) -> None:
    """The exact schedule: who computes, sends and receives in every slot.

    The defaults are the worked example of the paper: six devices, two per group, two compute slots.
    """
    if out is not None:
        check_picture_path(out)
    if as_json and out is None and slots is not None:
        raise InputError("slots", slots, "left out with --json, which lists every round")
    fleet.refuse_beside(compute_slots, samples_per_slot)
    training = slots_of_training(compute_slots, samples_per_slot, local_steps, batch_size, default=2)
    count, options = fleet.options(devices, USUAL_DEVICES, link_slots)
    powers = power.powers()
    scenario = Scenario(
        devices=count,
        group_size=group_size,
        compute_slots=training,
        link_slots=link_slots,
        deadline=deadline,
    )
    if rounds is None and deadline is None:
        rounds = 2 * scenario.groups
    unequal = options.fleet(scenario, seed)
    refuse_too_many_uplinks(scenario, rounds, unequal)
    result = simulate(
        scenario,
        schedule,
        delay=delay_of(delay),
        rounds=rounds,
        fleet=unequal,
        participation=participation,
        seed=seed,
    )
    window = None if slots is None else window_of(slots, result)
    if out is not None:
        write_gantt(result, out, picture_window(result, window))
    spending = Costs.of(result, powers)
    if as_json:
        typer.echo(_json(result, spending, per_device or powers is not None, per_device))
    elif out is not None:
        typer.echo(f"wrote {out}")
    else:
        _print_chart(result, window)
        _print_spending(spending, per_device)


def _json(result: Timeline, spending: Costs, with_usage: bool, per_device: bool) -> str:
    """The timeline; what the devices spend only if it was asked for, so that others read what they know."""
    if not with_usage:
        return result.to_json()
    return json.dumps(result.as_dict() | {"usage": usage_as_dict(spending, per_device)})


def _print_spending(spending: Costs, per_device: bool) -> None:
    console = table_console()
    console.print()
    console.print(spending_line(spending))
    if per_device:
        console.print(device_table(spending, f"Each device, in {spending.slots:,} slots"))


def _print_chart(result: Timeline, window: Window | None) -> None:
    console = Console()
    ascii_only = not console.encoding.startswith("utf")
    chart = gantt_text(result, width=console.width, window=window, ascii_only=ascii_only)
    console.print(chart, no_wrap=True, overflow="ignore", crop=False)
