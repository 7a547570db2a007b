"""A timeline in words: the head of every chart."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.schedule.timeline import Timeline


def describe(timeline: Timeline) -> tuple[str, str]:
    """What was asked for, and what came out."""
    scenario, lost = timeline.scenario, len(timeline.lost)
    asked = (
        f"{amount(scenario.devices, 'device')}, {amount(scenario.group_size, 'uplink')} a round, "
        f"{_slots_of(timeline)}"
    )
    found = (
        f"{timeline.schedule}{_delay(timeline)}: {amount(timeline.rounds, 'round')} in "
        f"{amount(timeline.last_slot, 'slot')}; "
        f"staleness {timeline.max_staleness():,} at most, {timeline.mean_staleness():,.2f} on average"
    )
    return asked, found + (f"; {amount(lost, 'uplink')} lost" if lost else "")


def _delay(timeline: Timeline) -> str:
    if timeline.schedule != "idfl":
        return ""
    return ", just in time" if timeline.delay is None else f", delay {timeline.delay:,}"


def _slots_of(timeline: Timeline) -> str:
    scenario, fleet = timeline.scenario, timeline.fleet
    if fleet is None:
        training, transfer = amount(scenario.compute_slots, "slot"), f"{scenario.link_slots:,}"
        return f"{training} to compute, {transfer} per uplink or broadcast"
    jitter = f" (jitter {fleet.jitter:.0%})" if fleet.jitter else ""
    return (
        f"{_range(fleet.compute_slots)} slots to compute{jitter}, {_range(fleet.link_slots)} per uplink, "
        f"{scenario.link_slots:,} per broadcast"
    )


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"


def amount(number: int, noun: str) -> str:
    """``1 slot``, ``1,000 slots``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def span(first: int, end: int, noun: str = "slot") -> str:
    """The half-open [first, end) as a person names it: ``slot 4``, ``slots 5–6``."""
    return f"{noun} {first}" if end - first == 1 else f"{noun}s {first}–{end - 1}"


def model_name(version: int) -> str:
    """w_3 as charts write it: ``w3``."""
    return f"w{version}"
