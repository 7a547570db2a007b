"""The timeline command: the exact schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from slotwise.cli.flags import (
    PANELS,
    AsJson,
    PerDevice,
    command,
    output,
    power_flags,
    refuse_idle,
    refuse_idle_seed,
    refuse_with,
    run_flags,
    take_powers,
    whole_number,
)
from slotwise.costs import Costs
from slotwise.errors import InputError
from slotwise.report.gantt import check_picture_path, gantt_text, window_of, write_gantt
from slotwise.report.tables import cost_line, costs_as_dict, device_table, table_console
from slotwise.runs.config import RunConfig
from slotwise.runs.slot_duration import powers_of_run
from slotwise.runs.slow_link import simulate_run

# The worked example of the paper.
EXAMPLE = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": None, "schedule": "async"}
FLAGS = [
    flag
    for flag in run_flags("channel", "policy", "fleet", "radio", defaults=EXAMPLE)
    if flag.name != "bits_per_slot"
]
SPEED = run_flags("training", only=("local_steps", "batch_size", "seed"))

ROUNDS = Parameter(
    help="Stop after so many rounds. Default: two rounds per group, if there is no deadline.",
    group=PANELS["policy"],
    converter=whole_number,
)
SLOTS = output("Show slots A to B-1 only; A: and :B are allowed. Default: as many as fit.", metavar="A:B")
OUT = output("Draw a picture instead: FILE.svg, .png or .html.", metavar="FILE")


@command(*FLAGS, *SPEED, *power_flags())
def timeline(
    options: dict[str, Any],
    *,
    rounds: Annotated[int | None, ROUNDS] = None,
    slots: Annotated[str | None, SLOTS] = None,
    per_device: PerDevice = False,
    as_json: AsJson = False,
    out: Annotated[Path | None, OUT] = None,
) -> None:
    """Show the exact schedule: who computes, sends and receives in every slot.

    The defaults are the worked example of the paper: six devices, two per group, two compute slots.
    """
    if out is not None:
        check_picture_path(out)
    if as_json and out is None and slots is not None:
        raise InputError("slots", slots, "omitted with --json, which lists every round")
    if out is not None and not as_json:
        powers_given = [flag.name for flag in power_flags() if flag.name in options]
        given = {"per_device": per_device, **dict.fromkeys(powers_given, True)}
        refuse_with("out", given, "a picture shows no costs; --json does")
    refuse_idle(options)
    powers = take_powers(options)
    config = RunConfig.from_options(options, defaults=EXAMPLE)
    if rounds is None and config.channel.deadline is None:
        rounds = 2 * config.channel.groups
    refuse_idle_seed(options, config)
    powers = powers and powers_of_run(powers, config)
    result = simulate_run(config, rounds)
    bits = config.update_bits
    window = None if slots is None else window_of(slots, result)
    if out is not None:
        write_gantt(result, out, window, update_bits=bits)
    costs = Costs.of(result, powers)
    if as_json and (per_device or powers is not None):
        print(json.dumps(result.as_dict() | {"usage": costs_as_dict(costs, per_device)}))
    elif as_json:  # usage only on request: other readers expect what they know
        print(result.to_json())
    elif out is not None:
        print(f"wrote {out}")
    else:
        console = Console()
        ascii_only = not console.encoding.startswith("utf")
        chart = gantt_text(
            result, width=console.width, window=window, ascii_only=ascii_only, update_bits=bits
        )
        console.print(chart, no_wrap=True, overflow="ignore", crop=False)
        console = table_console()
        console.print()
        console.print(cost_line(costs))
        if per_device:
            console.print(device_table(costs, f"Each device, in {costs.slots:,} slots"))
