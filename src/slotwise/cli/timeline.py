"""slotwise timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slotwise.cli.options import (
    OUTPUT,
    SCHEDULE,
    BatchSize,
    ComputeDistribution,
    ComputeSlots,
    DelayText,
    Devices,
    FleetFile,
    GroupSize,
    Jitter,
    Json,
    LinkDistribution,
    LinkSlots,
    LocalSteps,
    Loss,
    MeanAway,
    MeanPresent,
    ParticipationName,
    RetransmissionName,
    SamplesPerSlot,
    ScheduleName,
    UplinkSlots,
    delay_of,
    fleet_options,
    slots_of_training,
)
from slotwise.errors import InputError
from slotwise.report.gantt import check_picture_path, picture_window, write_gantt
from slotwise.report.gantt_text import gantt_text
from slotwise.report.window import Window, window_of
from slotwise.scenario import LARGEST, Scenario
from slotwise.schedule import Timeline, simulate

MOST_UPLINKS = 20_000_000


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
    compute_distribution: ComputeDistribution = None,
    link_distribution: LinkDistribution = None,
    fleet_file: FleetFile = None,
    uplink_slots: UplinkSlots = None,
    jitter: Jitter = None,
    loss: Loss = None,
    retransmission: RetransmissionName = None,
    mean_present: MeanPresent = None,
    mean_away: MeanAway = None,
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
    given = locals()
    if out is not None:
        check_picture_path(out)
    if as_json and out is None and slots is not None:
        raise InputError("slots", slots, "left out with --json, which lists every round")
    training = slots_of_training(compute_slots, samples_per_slot, local_steps, batch_size, default=2)
    count, options = fleet_options(given, devices, link_slots)
    scenario = Scenario(
        devices=count,
        group_size=group_size,
        compute_slots=training,
        link_slots=link_slots,
        deadline=deadline,
    )
    if rounds is None and deadline is None:
        rounds = 2 * scenario.groups
    _refuse_too_many(scenario, rounds)
    result = simulate(
        scenario,
        schedule,
        delay=delay_of(delay),
        rounds=rounds,
        fleet=options.fleet(scenario, seed),
        participation=participation,
        seed=seed,
    )
    window = None if slots is None else window_of(slots, result)
    if out is not None:
        write_gantt(result, out, picture_window(result, window))
    if as_json:
        typer.echo(result.to_json())
    elif out is not None:
        typer.echo(f"wrote {out}")
    else:
        _print_chart(result, window)


def _print_chart(result: Timeline, window: Window | None) -> None:
    console = Console()
    ascii_only = not console.encoding.startswith("utf")
    chart = gantt_text(result, width=console.width, window=window, ascii_only=ascii_only)
    console.print(chart, no_wrap=True, overflow="ignore", crop=False)


def _refuse_too_many(scenario: Scenario, rounds: int | None) -> None:
    """Nobody reads a timeline of hundreds of millions of uplinks, and no memory holds it."""
    size = scenario.group_size
    by_deadline = (scenario.deadline or LARGEST) // scenario.communication_slots
    if size * min(by_deadline, rounds or LARGEST) > MOST_UPLINKS:
        what = "deadline" if rounds is None else "rounds"
        value = scenario.deadline if rounds is None else rounds
        raise InputError(
            what, value, f"shorter: more than {MOST_UPLINKS:,} uplinks are too many for a timeline"
        )
