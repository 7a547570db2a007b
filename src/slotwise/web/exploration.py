"""Contents of the explorer as JSON values: figures of a configuration, parts of its Gantt chart, group sizes.

Everything is computed by the planner and the simulator, as the commands do.
"""

from __future__ import annotations

import json
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from slotwise.base.errors import InputError
from slotwise.base.files import csv_text
from slotwise.options import replaced_options
from slotwise.radio import ChannelModel, RadioOptions
from slotwise.report.gantt.chart import (
    SERVER,
    Interval,
    Window,
    activity_table,
    describe,
    lanes,
    round_starts,
    transfers,
)
from slotwise.runs.config import RunConfig
from slotwise.schedule import NoRoundError, Simulator, Timeline, automatic_delay, most_uplinks
from slotwise.schedule.costs import Costs, Powers
from slotwise.setting.planning import SCHEDULES
from slotwise.setting.slot_duration import known_slot_seconds, powers_of_run
from slotwise.web.controls import CASE, effective, of_other_choices
from slotwise.web.refusals import at_fault, in_labels

if TYPE_CHECKING:
    from slotwise.radio.channel import ModelConditions

MOST_UPLINKS, MOST_EVENTS = 3_000_000, 400_000  # of a timeline in a page: about a second
MOST_INTERVALS = 40_000  # of one part of a Gantt chart
KEPT_TIMELINES, KEPT_UPLINKS = 8, 4_000_000  # the newest three are kept in any case: one a schedule


class Timelines:
    """The last few timelines, and with them tables that are slow to make."""

    def __init__(self) -> None:
        self._kept: OrderedDict[RunConfig, Timeline] = OrderedDict()
        self._tables: OrderedDict[int, tuple[Timeline, Any]] = OrderedDict()

    def of(self, config: RunConfig) -> Timeline:
        """Return the timeline of a configuration, or raise an InputError if it is too long for a page."""
        if config in self._kept:
            self._kept.move_to_end(config)
            return self._kept[config]
        refuse_too_long(config)
        timeline = self._kept[config] = config.simulate()
        _drop_oldest(self._kept)
        return timeline

    def chosen(self, options: Mapping[str, Any]) -> Timeline:
        """Return the timeline of options; an InputError names the one that keeps a round from ending."""
        config, kept, _ = effective(options)
        try:
            return self.of(config)
        except InputError as error:
            raise at_fault(kept, config, error) from None

    def table(self, timeline: Timeline, window: Window) -> Any:
        """Return the intervals of all devices that have a slot in the window, as `activity_table` does."""
        later = 3 * timeline.scenario.groups + 2
        if timeline.equal_devices and timeline.max_staleness() + 1 < later:
            # Rounds long after the window change nothing in it: what is computed there is sent before them.
            seen = int(np.searchsorted(timeline.broadcast_end, window.end)) + later
            return activity_table(timeline.first(seen), window)
        # The entry keeps the timeline alive, so that no other one can have its id.
        found = self._tables.get(id(timeline))
        if found is None:
            found = self._tables[id(timeline)] = (timeline, activity_table(timeline))
            _drop_oldest(self._tables, lambda entry: len(entry[0]))
        every = found[1]
        return every[:, (every[2] < window.end) & (every[3] > window.first)]


def _drop_oldest(kept: OrderedDict[Any, Any], size: Callable[[Any], int] = len) -> None:
    """Drop the oldest timelines if there are many, or few but long ones."""
    while len(kept) > KEPT_TIMELINES or (len(kept) > len(SCHEDULES) and _total(kept, size) > KEPT_UPLINKS):
        kept.popitem(last=False)


def _total(kept: Mapping[Any, Any], size: Callable[[Any], int]) -> int:
    return sum(size(value) for value in kept.values())


def refuse_too_long(config: RunConfig) -> None:
    """Raise an InputError if a timeline is too long to be computed while a page waits."""
    found = most_uplinks(config.channel, None, config.make_fleet())
    most = MOST_UPLINKS if is_plain(config) else MOST_EVENTS
    if found > most:
        allowed = f"smaller: this may be {found:,} uplinks, and the explorer simulates at most {most:,}"
        raise InputError("deadline", config.deadline, allowed)


def is_plain(config: RunConfig) -> bool:
    """Return whether all devices and slots are equal, so that closed forms apply."""
    return config.simulator is Simulator.BATCHES


def view(
    timelines: Timelines, options: Mapping[str, Any], powers: Powers | None, *, brief: bool = False
) -> dict[str, Any]:
    """Return the figures of a configuration and, unless ``brief``, of the same with the other schedules."""
    config, kept, unused = effective(options)
    timeline = timelines.chosen(options)
    wanted = (config.schedule,) if brief else SCHEDULES
    schedules = {name: _schedule(timelines, {**options, "schedule": name}, powers) for name in wanted}
    return {
        "options": config.options(),
        "unused": {name: in_labels(reason) for name, reason in (_without_effect(config) | unused).items()},
        "chosen": config.schedule,
        "describe": describe(timeline, config.update_bits),
        "delay": _delays(config, timeline),
        "slot_seconds": known_slot_seconds(config, powers),
        "schedules": schedules,
        "gantt": frame(timeline),
        "forms": forms(config, kept),
    }


def _without_effect(config: RunConfig) -> dict[str, str]:
    """Return the options that have no effect with the others, with the reason."""
    return of_other_choices(config) | config.without_effect() | config.without_effect_here()


def _schedule(timelines: Timelines, options: Mapping[str, Any], powers: Powers | None) -> Any:
    """Return the figures of one schedule; None if no round ends by the deadline."""
    try:
        config, *_ = effective(options)
        timeline = timelines.of(config)
    except NoRoundError:
        return None
    return figures(timeline, powers and powers_of_run(powers, config))


def figures(timeline: Timeline, powers: Powers | None) -> dict[str, Any]:
    """Return the totals of a timeline by name."""
    costs = Costs.of(timeline, powers)
    spread = costs.joules_of_a_device
    return {
        **timeline.totals()._asdict(),
        "delay": timeline.delay,
        "deadline": timeline.scenario.deadline,
        "channel_share": costs.channel_share,
        "shares": costs.shares,
        "air_slots": costs.air_slots._asdict(),
        "joules": costs.joules,
        "server_joules": costs.server_joules,
        "joules_of_a_device": spread and spread._asdict(),
    }


def _delays(config: RunConfig, timeline: Timeline) -> dict[str, Any]:
    """Return the delay in use, the largest allowed, and the free one; None for unequal devices."""
    free = automatic_delay(config.channel) if is_plain(config) else None
    return {"used": timeline.delay, "largest": config.channel.largest_delay, "free": free}


def frame(timeline: Timeline) -> dict[str, Any]:
    """Return the extent of the Gantt chart, and the slots that it shows at first.

    They do not depend on the group size, so that the picture keeps its scale while that is changed.
    """
    scenario = timeline.scenario
    uplinks = -(-scenario.devices // scenario.sub_channels)
    usual = 2 * (int(np.mean(timeline.fleet.compute_slots)) + scenario.link_slots * (uplinks + 1))
    first = min(timeline.last_slot, usual, 800)
    return {"last": timeline.last_slot, "devices": scenario.devices, "first": first}


def part(
    timelines: Timelines, timeline: Timeline, window: Window, devices: range, most: int = MOST_INTERVALS
) -> dict[str, Any]:
    """Return the intervals of some devices and of the channel in a window of slots, as columns."""
    last, devices = timeline.last_slot, range(devices.start, min(devices.stop, timeline.scenario.devices + 1))
    window = Window(max(0, min(window.first, last - 1)), max(1, min(window.end, last)))
    table = timelines.table(timeline, window)
    table = table[:, (table[0] >= devices.start) & (table[0] < devices.stop)]
    cut = table.shape[1] > most
    table = table[:, :most]
    carried = transfers(timeline, window)[:most]
    names = ("device", "kind", "start", "end", "version", "round")
    columns = list(zip(*carried, strict=True)) or [()] * 6
    starts = round_starts(timeline, window)
    return {
        "slots": list(window),
        "devices": [devices.start, devices.stop],
        "cut": cut,
        "bars": dict(zip(names, table.tolist(), strict=True)),
        "channel": dict(zip(names, ([int(value) for value in column] for column in columns), strict=True)),
        **placed(timeline, carried),
        "rounds": [list(starts), list(starts.values())],
    }


def placed(timeline: Timeline, carried: Sequence[Interval]) -> dict[str, Any]:
    """Return the number of lanes of the channel, and the lane of each transfer; -1 is all of them."""
    beside = timeline.scenario.has_full_duplex
    alone = [one for one in carried if beside or one.device != SERVER]  # uplinks come first
    lane = [*lanes(alone), *[-1] * (len(carried) - len(alone))]
    return {"lanes": max(1, timeline.most_at_once + beside), "lane": lane}


def forms(config: RunConfig, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration as a command, as TOML and as Python, each complete by itself."""
    options = shown_options(config, given)
    flags = [part for name, value in options.items() for part in ("--" + name.replace("_", "-"), str(value))]
    toml = "".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in options.items())
    table = "".join(f"    {name!r}: {value!r},\n".replace("'", '"') for name, value in options.items())
    python = (
        f"import slotwise as sw\n\nconfig = sw.RunConfig.from_options({{\n{table}}})\n"
        "timeline = config.simulate()\n"
        "print(timeline.rounds, timeline.mean_staleness(), timeline.max_staleness())\n"
    )
    return {"command": shlex.join(["slotwise", "timeline", *flags]), "toml": toml, "python": python}


def shown_options(config: RunConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say everything: those of the case and those that were given."""
    names = dict.fromkeys([*CASE, "schedule", *given])
    for name in (*replaced_options(config), "group_size_changes"):  # the group size says the latter
        names.pop(name, None)
    table = config.options() | {"group_size": config.channel.group_size}
    if config.channel.group_size_changes:
        table["group_size"] = config.channel.group_size_text
    return {name: table[name] for name in names}


def uplinks_csv(timeline: Timeline) -> str:
    """Return CSV text with a row for each uplink that arrived."""
    names = ("round", "device", "version", "staleness", "start", "end")
    columns = [getattr(timeline, name).tolist() for name in names]
    return csv_text(names, zip(*columns, strict=True))


GOLDEN_ANGLE = pi * (3 - sqrt(5))  # radians: directions that never meet, however many there are


def cell_map(config: RunConfig, timeline: Timeline) -> dict[str, Any] | None:
    """Return distances, directions, mean SNRs and uplinks of all devices; None without a model of the cell.

    The model knows distances only. Directions are for the drawing: device n is n golden angles around.
    """
    options = config.link
    if not isinstance(options, RadioOptions) or not isinstance(options.channel, ChannelModel):
        return None
    link = config.radio_link()
    snr_db = cast("ModelConditions", link.conditions).mean_snr_db
    cell = options.channel.cell(config.channel.devices, config.seed)
    numbers = np.arange(1, config.channel.devices + 1)
    return {
        "distance_m": _rounded(cell.distance_m),
        "angle": _rounded(numbers * GOLDEN_ANGLE % (2 * pi), 4),
        "snr_db": _rounded(snr_db),
        "threshold_db": float(round(10 * np.log10(link.threshold), 1)) if link.fixed_slots else None,
        **_uplinks(timeline),
    }


def _uplinks(timeline: Timeline) -> dict[str, list[Any]]:
    """Return for each device the uplinks that arrived, those that were lost, and their mean slots."""
    devices = timeline.scenario.devices
    lost = timeline.lost[:, 1]
    sent = np.concatenate([timeline.device, lost])
    slots = np.concatenate([timeline.end - timeline.start, timeline.lost[:, 4] - timeline.lost[:, 3]])
    count = np.bincount(sent, minlength=devices + 1)[1:]
    total = np.bincount(sent, weights=slots, minlength=devices + 1)[1:]
    failed = np.bincount(lost, minlength=devices + 1)[1:]
    mean = [round(t / c, 2) if c else None for t, c in zip(total.tolist(), count.tolist(), strict=True)]
    return {"arrived": (count - failed).tolist(), "lost": failed.tolist(), "mean_slots": mean}


def _rounded(values: Any, digits: int = 1) -> list[float]:
    return [float(value) for value in np.round(values, digits)]
