"""slotwise plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from slotwise.cli.flags import (
    AS_JSON,
    OUTPUT,
    PANELS,
    command,
    power_flags,
    run_flags,
    take_powers,
    whole_numbers,
)
from slotwise.cli.options import most_uplinks, refuse_too_many
from slotwise.errors import InputError
from slotwise.planning import SCHEDULES, Plan, SimulatedPlan, plan_scenarios, scenarios_of, simulate_plans
from slotwise.report.cost_tables import table_console
from slotwise.report.plan_tables import fleet_plan_table, plan_cost_table, plan_table
from slotwise.runs.config import RunConfig
from slotwise.scenario import Scenario

QUICKLY_COUNTED = 2_000_000  # uplinks or devices of all rows together: a second or two
FLAGS = [flag for flag in run_flags("channel", "fleet") if flag.name not in ("group_size", "bits_per_slot")]
SPEED = run_flags("training", only=("local_steps", "batch_size", "seed"))


@command(*FLAGS, *SPEED, *power_flags())
def plan(
    options: dict[str, Any],
    *,
    group_size: Annotated[
        list[int] | None,
        Parameter(
            help="S, uplinks per round; repeat for several. Default: all divisors of N.",
            group=PANELS["channel"],
            converter=whole_numbers,
        ),
    ] = None,
    usage: Annotated[
        bool,
        Parameter(
            help="Show what the devices of every schedule spend their slots on; by default of idfl alone. "
            "Powers imply it.",
            group=OUTPUT,
        ),
    ] = False,
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Show what every group size costs: rounds, staleness, the free intentional delay, slots and joules.

    The defaults are the MNIST case of the paper (50 compute slots). With a fleet every schedule is simulated,
    and intentional delay is just in time for each device.
    """
    powers = take_powers(options)
    config = RunConfig.from_options({**options, "group_size": 1})
    scenarios = scenarios_of(group_sizes=group_size, **_channel(config))
    everything = usage or powers is not None
    drawn = config.make_fleet()
    if drawn is not None and not drawn.is_equal_to(scenarios[0]):
        for scenario in scenarios:
            refuse_too_many(scenario, fleet=drawn)
        simulated = simulate_plans(scenarios, drawn, seed=config.seed, powers=powers)
        _check_fits(simulated)
        _print_plans(fleet_plan_table(simulated), simulated, simulated, as_json, everything)
        return
    plans = plan_scenarios(scenarios)
    _check_first_round(plans)
    if everything:
        for scenario in scenarios:
            refuse_too_many(scenario)
        counted = simulate_plans(scenarios, powers=powers)
    else:
        counted = [] if as_json or _too_many(scenarios) else simulate_plans(scenarios, schedules=["idfl"])
    _print_plans(plan_table(plans), plans, counted, as_json, everything)


def _channel(config: RunConfig) -> dict[str, Any]:
    return {name: value for name, value in vars(config.channel).items() if name != "group_size"}


def _check_fits(plans: Sequence[SimulatedPlan]) -> None:
    if not any(plan.fits for plan in plans):
        deadline = plans[0].scenario.deadline
        raise InputError("deadline", deadline, "long enough for a first round of the fleet to end")


def _check_first_round(plans: Sequence[Plan]) -> None:
    if not any(plan.fits for plan in plans):
        shortest = min(p.scenario.compute_slots + p.scenario.communication_slots for p in plans)
        deadline = plans[0].scenario.deadline
        raise InputError("deadline", deadline, f"at least {shortest}, the slots of the shortest first round")


def _too_many(scenarios: Iterable[Scenario]) -> bool:
    return sum(max(most_uplinks(scenario), scenario.devices) for scenario in scenarios) > QUICKLY_COUNTED


def _print_plans(
    table: Table,
    plans: Sequence[Plan] | Sequence[SimulatedPlan],
    counted: Sequence[SimulatedPlan],
    as_json: bool,
    everything: bool,
) -> None:
    """As tables, or as JSON; what the devices spend is part of the JSON if it was asked for."""
    if as_json:
        rows = [plan.as_dict() for plan in plans]
        if everything:
            rows = [row | {"usage": c.usage_as_dict()} for row, c in zip(rows, counted, strict=True)]
        print(json.dumps(rows, indent=2))
        return
    console = table_console()
    console.print(table)
    if counted:
        console.print(plan_cost_table(counted, SCHEDULES if everything else ("idfl",)))
    else:
        console.print("usage skipped for this size; add --usage to compute it")
