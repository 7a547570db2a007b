"""slotwise timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli.options import (
    OUTPUT,
    SCHEDULE,
    BatchSize,
    ComputeSlots,
    DelayText,
    Devices,
    GroupSize,
    Json,
    LinkSlots,
    LocalSteps,
    ParticipationName,
    SamplesPerSlot,
    ScheduleName,
    delay_of,
    slots_of_training,
)
from slotwise.scenario import Scenario
from slotwise.schedule import simulate


def timeline(
    devices: Devices = 6,
    group_size: GroupSize = 2,
    compute_slots: ComputeSlots = None,
    link_slots: LinkSlots = 1,
    local_steps: LocalSteps = 5,
    batch_size: BatchSize = 64,
    samples_per_slot: SamplesPerSlot = None,
    schedule: ScheduleName = "async",
    delay: DelayText = "auto",
    participation: ParticipationName = "round-robin",
    seed: Annotated[int, typer.Option(help="Of the random participation.", rich_help_panel=SCHEDULE)] = 0,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many rounds. Default: two rounds per group, if there is no deadline.",
            rich_help_panel=SCHEDULE,
        ),
    ] = None,
    deadline: Annotated[int | None, typer.Option(help="Stop at this slot.", rich_help_panel=SCHEDULE)] = None,
    as_json: Json = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a picture: FILE.svg, .png or .html.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """The exact schedule: who computes, sends and receives in every slot.

    The defaults are the worked example of the paper: six devices, two per group, two compute slots.
    """
    slots = slots_of_training(compute_slots, samples_per_slot, local_steps, batch_size, default=2)
    scenario = Scenario(
        devices=devices, group_size=group_size, compute_slots=slots, link_slots=link_slots, deadline=deadline
    )
    if rounds is None and deadline is None:
        rounds = 2 * scenario.groups
    result = simulate(
        scenario, schedule, delay=delay_of(delay), rounds=rounds, participation=participation, seed=seed
    )
    if as_json:
        typer.echo(result.to_json())
