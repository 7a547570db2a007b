"""The channel and the devices on the page: who uses how many slots, schedule by schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from slotwise.batch.job import Run
from slotwise.costs import Costs, Powers, Spread
from slotwise.data import DataName
from slotwise.paper.lines import data_title
from slotwise.report.page import Content, Html, Section, heading, paragraph, table
from slotwise.runs import RunConfig
from slotwise.schedule import Timeline

WORDS = (
    "How full the channel is, and what the devices do meanwhile. Air time: the slots in which a device "
    "sends. Shares of the devices' time are those of all together; who neither computes, sends nor receives "
    "waits, for the channel or for a model."
)
HEADINGS = (
    "schedule",
    "#S",
    "#compute slots",
    "#r",
    "#uplinks",
    "#broadcasts",
    "#channel unused",
    "#air time of a device",
    "#computing",
    "#waiting",
)


def spending_section(runs: Iterable[Run], powers: Powers | None = None) -> Section:
    """A table for each data set; joules only if powers are given."""
    parts: list[Content] = []
    for (data, devices, deadline), found in groupby(_schedules(runs), _case):
        parts.append(heading(f"{data_title(data)}: N={devices}, T={deadline:,}"))
        headings = HEADINGS if powers is None else (*HEADINGS, "#joules")
        parts.append(table(headings, [_row(parameters, powers) for parameters in found]))
    words = [paragraph(WORDS), *_powers_in_words(powers)]
    return Section("spending", "Air time and energy", (*words, *parts) if parts else ())


def _schedules(runs: Iterable[Run]) -> Sequence[RunConfig]:
    """One run of each schedule: seeds, data partitions and readings change nothing about it."""
    found: dict[object, RunConfig] = {}
    for run in runs:
        parameters = run.parameters
        found.setdefault(
            (parameters.dataset.data, parameters.channel, parameters.policy.schedule), parameters
        )
    return sorted(found.values(), key=_case)


def _case(parameters: RunConfig) -> tuple[DataName, int, int]:
    return parameters.dataset.data, parameters.channel.devices, parameters.deadline


def _powers_in_words(powers: Powers | None) -> Iterator[Html]:
    if powers is not None:
        yield paragraph(
            f"Joules of all devices, at {powers.computing:g} W computing, {powers.sending:g} W sending, "
            f"{powers.receiving:g} W receiving and {powers.idle:g} W waiting; a slot takes "
            f"{powers.slot_seconds:g} s."
        )


def _row(parameters: RunConfig, powers: Powers | None) -> Sequence[str]:
    timeline = parameters.simulate()
    spending = Costs.of(timeline, powers)
    shares = spending.shares
    cells = (
        parameters.policy.schedule,
        f"{parameters.channel.group_size}",
        f"{parameters.channel.compute_slots}",
        f"{parameters.channel.link_slots}",
        *(f"{share:.1%}" for share in channel_shares(timeline)),
        _spread(spending.air_slots),
        f"{shares['computing']:.1%}",
        f"{shares['idle']:.1%}",
    )
    return cells if spending.joules is None else (*cells, f"{spending.joules:,.0f}")


def channel_shares(timeline: Timeline) -> tuple[float, float, float]:
    """Uplinks (in vain or not), broadcasts and nothing: parts of the slots until the last round ends."""
    uplinks = int(np.sum(timeline.end - timeline.start) + np.sum(timeline.lost[:, 4] - timeline.lost[:, 3]))
    broadcasts = int(np.sum(timeline.broadcast_end - timeline.broadcast_start))
    slots = timeline.last_slot
    return uplinks / slots, broadcasts / slots, (slots - uplinks - broadcasts) / slots


def _spread(spread: Spread) -> str:
    least, _, most = (f"{number:,}" for number in spread)
    return least if least == most else f"{least} to {most}"
