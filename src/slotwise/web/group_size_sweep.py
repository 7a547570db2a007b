"""Group size sweep: rounds and staleness of every group size, for the curves of the explorer.

Figures of a group size do not depend on the one that is chosen, so they are kept: while only the group size
is changed, the curves are there at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any

from slotwise.errors import InputError
from slotwise.planning import SCHEDULES, Plan, divisors, plan
from slotwise.runs.config import RunConfig
from slotwise.scenario import Scenario
from slotwise.web.controls import effective
from slotwise.web.exploration import is_plain, refuse_too_long

EVERY_SIZE_UP_TO = 128  # devices; beyond, group sizes are sampled
SAMPLED_SIZES, SAMPLED_FLEET_SIZES = 24, 8
KEPT_SWEEPS = 16
CHOSEN = ("group_size", "group_size_changes", "schedule", "delay")  # what the curves do not depend on
Row = dict[str, Any]


class Sweeps:
    """Rows of the last few sweeps."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, dict[int, Row]] = OrderedDict()

    def begin(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rows of the group sizes that are known, and the other sizes, in lists to ask for."""
        config, _, _ = effective(options)
        known, equal = self._known(options), is_plain(config)
        wanted = group_sizes(config.channel.devices, config.channel.group_size, equal=equal)
        missing = [size for size in wanted if size not in known]
        # Closed forms take no time, so the first request has the chosen size and all divisors. Simulated
        # sizes are asked for one by one, and shown as they come.
        step = max(8, len(divisors(config.channel.devices)) + 1) if equal else 1
        return {
            "rows": [known[size] for size in wanted if size in known],
            "missing": [missing[start : start + step] for start in range(0, len(missing), step)],
        }

    def rows(self, options: Mapping[str, Any], sizes: Sequence[int]) -> list[Row]:
        """Return rounds and staleness of some group sizes; sizes without a round may be missing."""
        config, _, _ = effective(options)
        if is_plain(config):
            found = _planned(config, sizes)
        else:
            fixed = {name: value for name, value in options.items() if name not in CHOSEN}
            found = [_simulated(fixed, size) for size in sizes]
        self._known(options).update((row["group_size"], row) for row in found)
        return found

    def _known(self, options: Mapping[str, Any]) -> dict[int, Row]:
        key = frozenset((name, value) for name, value in options.items() if name not in CHOSEN)
        known = self._kept.setdefault(key, {})
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_SWEEPS:
            self._kept.popitem(last=False)
        return known


def group_sizes(devices: int, chosen: int, *, equal: bool) -> list[int]:
    """Return the group sizes to show, the most telling first: divisors, then sizes between them."""
    first = [chosen, *divisors(devices)]
    if equal and devices <= EVERY_SIZE_UP_TO:
        return list(dict.fromkeys([*first, *range(1, devices + 1)]))
    count = SAMPLED_SIZES if equal else SAMPLED_FLEET_SIZES
    between = [round(devices ** (number / count)) for number in range(count + 1)]
    return list(dict.fromkeys([*first, *between]))


def _planned(config: RunConfig, sizes: Sequence[int]) -> list[Row]:
    """Return the rows of equal devices, from the planner."""
    channel, known = config.channel, signature(plan).parameters
    scenario = {f.name: getattr(channel, f.name) for f in fields(Scenario) if f.name in known}
    try:
        table = plan(**scenario, group_sizes=sizes)
    except InputError as error:
        if error.parameter != "deadline":
            raise
        return []  # no round of these sizes fits
    return [_planned_row(row) for row in table if isinstance(row, Plan) and row.fits]


def _planned_row(row: Plan) -> Row:
    known = row.figures()
    stale = {"sync": 0, "async": known["staleness_async"], "idfl": known["staleness_idfl"]}
    rounds = {"sync": known["sync_rounds"], "async": known["rounds"], "idfl": known["rounds"]}
    by_schedule = {name: {"rounds": rounds[name], "max_staleness": stale[name]} for name in stale}
    return {"group_size": known["group_size"], "delay": known["delay"], **by_schedule}


def _simulated(fixed: Mapping[str, Any], size: int) -> Row:
    """Return the row of unequal devices; figures of a schedule without a round are missing.

    The delay is the free one: a number need not fit all group sizes.
    """
    row: Row = {"group_size": size}
    for name in SCHEDULES:
        config = effective({**fixed, "group_size": size, "schedule": name})[0]
        try:
            refuse_too_long(config)
            timeline = config.simulate()
        except InputError as error:
            if error.parameter != "deadline":
                raise
            continue
        stale = {"mean_staleness": timeline.mean_staleness(), "max_staleness": timeline.max_staleness()}
        row[name] = {"rounds": timeline.rounds, **stale}
    return row
