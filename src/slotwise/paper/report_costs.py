"""Air time and energy in the report: the use of the channel and of the devices, schedule by schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from slotwise.batch.job import Run
from slotwise.costs import Costs, Powers, Spread
from slotwise.data import DataName
from slotwise.paper.experiments import DATA_TITLES
from slotwise.report.page import Content, Html, Section, heading, paragraph, table
from slotwise.runs import RunConfig
from slotwise.schedule import Timeline

INTRODUCTION = (
    "Uplinks, broadcasts and unused are shares of the slots of the channel until the last round ends. Air "
    "slots are those in which a device sends. Computing and waiting are shares of the time of all devices "
    "together; a device that neither computes, sends nor receives waits for the channel or for a model. "
    "If the free delay is 0, idfl is the same run as async and listed once, as async."
)
HEADINGS = (
    "schedule",
    "#S",
    "#compute slots",
    "#r",
    "#uplinks",
    "#broadcasts",
    "#unused",
    "#air slots per device",
    "#computing",
    "#waiting",
)


def costs_section(runs: Iterable[Run], powers: Powers | None = None) -> Section:
    """Return a table for each data set, with joules if powers are given."""
    headings = HEADINGS if powers is None else (*HEADINGS, "#joules")
    parts: list[Content] = []
    for (data, devices, deadline), configs in groupby(_schedules(runs), _case):
        parts.append(heading(f"{DATA_TITLES[data]}: N={devices}, T={deadline:,}"))
        parts.append(table(headings, [_row(config, powers) for config in configs]))
    introduction = (paragraph(INTRODUCTION), *_powers_text(powers))
    return Section("spending", "Air time and energy", (*introduction, *parts) if parts else ())


def _schedules(runs: Iterable[Run]) -> Sequence[RunConfig]:
    """Return one run of each schedule: seeds, partitions and readings do not change it."""
    found: dict[object, RunConfig] = {}
    for run in runs:
        config = run.config
        found.setdefault((config.dataset.data, config.channel, config.policy.schedule), config)
    return sorted(found.values(), key=_case)


def _case(config: RunConfig) -> tuple[DataName, int, int]:
    return config.dataset.data, config.channel.devices, config.deadline


def _powers_text(powers: Powers | None) -> Iterator[Html]:
    if powers is not None:
        yield paragraph(
            f"Joules of all devices, at {powers.computing:g} W computing, {powers.sending:g} W sending, "
            f"{powers.receiving:g} W receiving and {powers.idle:g} W waiting; a slot takes "
            f"{powers.slot_seconds:g} s."
        )


def _row(config: RunConfig, powers: Powers | None) -> Sequence[str]:
    timeline = config.simulate()
    costs = Costs.of(timeline, powers)
    shares = costs.shares
    cells = (
        config.policy.schedule,
        f"{config.channel.group_size}",
        f"{config.channel.compute_slots}",
        f"{config.channel.link_slots}",
        *(f"{share:.1%}" for share in channel_shares(timeline)),
        _spread(costs.air_slots),
        f"{shares['computing']:.1%}",
        f"{shares['idle']:.1%}",
    )
    return cells if costs.joules is None else (*cells, f"{costs.joules:,.0f}")


def channel_shares(timeline: Timeline) -> tuple[float, float, float]:
    """Return the shares of uplinks (lost ones included), broadcasts and unused slots."""
    uplinks = int(np.sum(timeline.end - timeline.start) + np.sum(timeline.lost[:, 4] - timeline.lost[:, 3]))
    broadcasts = int(np.sum(timeline.broadcast_end - timeline.broadcast_start))
    slots = timeline.last_slot
    return uplinks / slots, broadcasts / slots, (slots - uplinks - broadcasts) / slots


def _spread(spread: Spread) -> str:
    least, _, most = (f"{number:,}" for number in spread)
    return least if least == most else f"{least} to {most}"
