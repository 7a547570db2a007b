"""The commands plan and timeline: schedules without any training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from slotwise.base.errors import InputError, UserError
from slotwise.cli.flags import (
    PANELS,
    AsJson,
    PerDevice,
    assumed_bits,
    command,
    output,
    power_flags,
    refuse_idle_seed,
    refuse_idle_task,
    refuse_with,
    run_flags,
    size_flags,
    take_powers,
    whole_number,
    whole_numbers,
)
from slotwise.options import declared
from slotwise.radio import RadioOptions
from slotwise.report.gantt import SUFFIXES, Window, check_picture_path, gantt_text, window_of, write_gantt
from slotwise.report.tables import (
    access_table,
    cost_line,
    costs_as_dict,
    device_table,
    plan_tables,
    table_console,
)
from slotwise.schedule import Synchronous, ready_policy
from slotwise.schedule.costs import Costs
from slotwise.schedule.simulation import refuse_agents
from slotwise.setting import Setting
from slotwise.setting.access_plan import compare_access as compare
from slotwise.setting.planning import plan as make_plan
from slotwise.setting.slot_duration import powers_of_run
from slotwise.setting.slow_link import simulate_run

if TYPE_CHECKING:
    from slotwise.schedule import Timeline
    from slotwise.setting.access_plan import AccessTable

# The worked example of the paper.
EXAMPLE = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": None, "schedule": "async"}
PLAN_FLAGS = [
    flag
    for flag in run_flags(owner=Setting)
    if flag.name != "group_size"
    and (flag.panel is not PANELS["policy"] or flag.name in declared(Synchronous))
]
TIMELINE_FLAGS = run_flags(owner=Setting, defaults=EXAMPLE)

GROUP_SIZE = Parameter(
    help="S, uplinks per round; repeat for several. Default: all divisors of N.",
    group=PANELS["channel"],
    converter=whole_numbers,
)
USAGE = output("Show the costs of every schedule; by default of idfl alone. Powers imply it.")
COMPARE_ACCESS = output(
    "Compare the access schemes over a rate-adaptive radio link: seconds of a round, rounds by the deadline "
    "and, with powers, joules. Default of the group size: 10, or all devices if they are fewer."
)
ROUNDS = Parameter(
    help="Stop after so many rounds. Default: two rounds per group, if there is no deadline.",
    group=PANELS["policy"],
    converter=whole_number,
)
SLOTS = output("Show slots A to B-1 only; A: and :B are allowed. Default: as many as fit.", metavar="A:B")
OUT = output("Draw a picture instead: FILE.svg, .png or .html.", metavar="FILE")


def _setting(options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Setting:
    """Return the setting; a run only if its link needs the bits of a model, that of --task or the paper's."""
    size = {flag.name for flag in size_flags()}
    setting = Setting.from_options({n: value for n, value in options.items() if n not in size}, defaults)
    if isinstance(setting.link, RadioOptions) and setting.link.lacks_bits:
        from slotwise.runs.config import RunConfig  # noqa: PLC0415  (slow to import)

        return RunConfig.from_options(options, defaults)
    refuse_idle_task(options, setting)
    return setting


@command(*PLAN_FLAGS, *size_flags(), *power_flags())
def plan(
    options: dict[str, Any],
    *,
    group_size: Annotated[list[int] | None, GROUP_SIZE] = None,
    usage: Annotated[bool, USAGE] = False,
    compare_access: Annotated[bool, COMPARE_ACCESS] = False,
    as_json: AsJson = False,
) -> None:
    """Show what every group size costs: rounds, staleness, the free intentional delay, slots and joules.

    The defaults are the MNIST case of the paper (50 compute slots). With a fleet or a radio every schedule is
    simulated, and intentional delay is the automatic one. Over a radio the update is that of the paper's
    MNIST model, of --task, or of --radio-bits.
    """
    powers = take_powers(options)
    # All schedules are compared; only sync has participants to choose.
    asks_sync = any(name.startswith("participation") for name in options)
    schedule = {"schedule": "sync"} if asks_sync else {}
    config = _setting({**options, **schedule, "group_size": 1})
    policy = ready_policy(config.policy, config.seed)
    refuse_agents(policy)
    refuse_idle_seed(options, config)
    if compare_access:
        refuse_with("compare_access", {"usage": usage, "sub_channels": config.channel.sub_channels > 1})
        if config.make_fleet().windows is not None:
            raise UserError("--compare-access cannot be combined with windows or owned slots of devices")
        sizes = group_size or [min(Setting().channel.group_size, config.channel.devices)]
        _show_access(
            compare(config, group_sizes=sizes, powers=powers), assumed_bits(options, config), as_json
        )
        return
    channel, fleet = config.channel, config.make_fleet()
    table = make_plan(
        devices=channel.devices,
        compute_slots=channel.compute_slots,
        link_slots=channel.link_slots,
        sub_channels=channel.sub_channels,
        duplex=channel.duplex,
        deadline=config.deadline,
        group_sizes=group_size,
        fleet=fleet,
        link=partial(config.make_link, fleet=fleet),
        selection=policy.selection,
        participation=policy.participation if isinstance(policy, Synchronous) else Synchronous.participation,
        seed=config.seed,
        usage=usage if usage or as_json else None,
        powers=powers and powers_of_run(powers, config),
    )
    if as_json:
        print(json.dumps([row.as_dict() for row in table], indent=2))
        return
    console = table_console()
    for shown in plan_tables(table):
        console.print(shown)
    if note := assumed_bits(options, config):
        console.print(note)
    if not table[0].costs:
        console.print("costs skipped for this size; add --usage to compute them")


def _show_access(plans: AccessTable, note: str | None, as_json: bool) -> None:
    """Print a comparison of access schemes, and which bits were assumed."""
    if as_json:
        print(json.dumps([row.as_dict() for row in plans], indent=2))
        return
    console = table_console()
    console.print(access_table(plans))
    if note:
        console.print(note)


@command(*TIMELINE_FLAGS, *size_flags(), *power_flags())
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
        check_picture_path(out, (*SUFFIXES, ".html"))
    if as_json and out is None and slots is not None:
        raise InputError("slots", slots, "omitted with --json, which lists every round")
    given_powers = {flag.name: True for flag in power_flags() if flag.name in options}
    powers = take_powers(options)
    if out is not None and not as_json:
        costs_asked = {"per_device": per_device, **given_powers}
        refuse_with("out", costs_asked, "a picture shows no costs; --json does")
    config = _setting(options, EXAMPLE)
    refuse_idle_seed(options, config)
    if rounds is None and config.channel.deadline is None:
        rounds = 2 * config.channel.groups
    powers = powers and powers_of_run(powers, config)
    result = simulate_run(config, rounds)
    window = None if slots is None else window_of(slots, result)
    if out is not None:
        _write_picture(result, out, window, config.update_bits)
    costs = Costs.of(result, powers)
    if as_json and (per_device or powers is not None):
        print(json.dumps(result.as_dict() | {"usage": costs_as_dict(costs, per_device)}))
    elif as_json:  # usage only on request: other readers expect what they know
        print(result.to_json())
    elif out is not None:
        print(f"wrote {out}")
    else:
        _draw(result, window, config.update_bits)
        table_console().print("", cost_line(costs), sep="\n")
        if per_device:
            table_console().print(device_table(costs, f"Each device, in {costs.slots:,} slots"))


def _draw(result: Timeline, window: Any, bits: int | None) -> None:
    """Print the chart of a timeline, as wide as the terminal."""
    console = Console()
    ascii_only = not console.encoding.startswith("utf")
    chart = gantt_text(result, width=console.width, window=window, ascii_only=ascii_only, update_bits=bits)
    console.print(chart, no_wrap=True, overflow="ignore", crop=False)


def _write_picture(result: Timeline, path: Path, window: Window | None, update_bits: int | None) -> None:
    """Write a figure or, to an .html file, the explorer's Gantt chart."""
    if path.suffix.lower() != ".html":
        write_gantt(result, path, window, update_bits=update_bits)
        return
    from slotwise.web.timeline_view import timeline_view  # noqa: PLC0415  (slow to import)

    timeline_view(result, window, update_bits=update_bits).save(path)
