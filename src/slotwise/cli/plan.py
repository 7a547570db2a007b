"""The plan command: the table over group sizes."""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.cli.flags import (
    PANELS,
    AsJson,
    command,
    output,
    power_flags,
    refuse_idle,
    refuse_idle_seed,
    run_flags,
    take_powers,
    whole_numbers,
)
from slotwise.planning import plan as make_plan
from slotwise.report.tables import plan_tables, table_console
from slotwise.runs.config import RunConfig
from slotwise.runs.slot_duration import powers_of_run

FLAGS = [
    flag
    for flag in run_flags("channel", "fleet", "radio")
    if flag.name not in ("group_size", "bits_per_slot")
]
SPEED = run_flags("training", only=("local_steps", "batch_size", "seed"))

GROUP_SIZE = Parameter(
    help="S, uplinks per round; repeat for several. Default: all divisors of N.",
    group=PANELS["channel"],
    converter=whole_numbers,
)
USAGE = output("Show the costs of every schedule; by default of idfl alone. Powers imply it.")


@command(*FLAGS, *SPEED, *power_flags())
def plan(
    options: dict[str, Any],
    *,
    group_size: Annotated[list[int] | None, GROUP_SIZE] = None,
    usage: Annotated[bool, USAGE] = False,
    as_json: AsJson = False,
) -> None:
    """Show what every group size costs: rounds, staleness, the free intentional delay, slots and joules.

    The defaults are the MNIST case of the paper (50 compute slots). With a fleet or a radio every schedule is
    simulated, and intentional delay is the automatic one.
    """
    refuse_idle(options)
    powers = take_powers(options)
    config = RunConfig.from_options({**options, "group_size": 1})
    refuse_idle_seed(options, config)
    channel = config.channel
    table = make_plan(
        devices=channel.devices,
        compute_slots=channel.compute_slots,
        link_slots=channel.link_slots,
        sub_channels=channel.sub_channels,
        deadline=config.deadline,
        group_sizes=group_size,
        fleet=config.make_fleet(),
        link=None if config.radio.radio_link is None else config.make_link,
        usage=usage if usage or as_json else None,
        powers=powers and powers_of_run(powers, config),
    )
    if as_json:
        print(json.dumps([row.as_dict() for row in table], indent=2))
        return
    console = table_console()
    for shown in plan_tables(table):
        console.print(shown)
    if not table[0].costs:
        console.print("costs skipped for this size; add --usage to compute them")
