"""A timeline in words: the head of every chart."""

from __future__ import annotations

from slotwise.schedule.timeline import Timeline


def describe(timeline: Timeline) -> tuple[str, str]:
    """What was asked for, and what came out."""
    scenario = timeline.scenario
    training, transfer = amount(scenario.compute_slots, "slot"), f"{scenario.link_slots:,}"
    asked = (
        f"{amount(scenario.devices, 'device')}, {amount(scenario.group_size, 'uplink')} a round, "
        f"{training} to compute, {transfer} per uplink or broadcast"
    )
    delay = f", delay {timeline.delay:,}" if timeline.schedule == "idfl" else ""
    found = (
        f"{timeline.schedule}{delay}: {amount(timeline.rounds, 'round')} in "
        f"{amount(timeline.last_slot, 'slot')}; "
        f"staleness {timeline.max_staleness():,} at most, {timeline.mean_staleness():,.2f} on average"
    )
    return asked, found


def amount(number: int, noun: str) -> str:
    """``1 slot``, ``1,000 slots``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def span(first: int, end: int, noun: str = "slot") -> str:
    """The half-open [first, end) as a person names it: ``slot 4``, ``slots 5–6``."""
    return f"{noun} {first}" if end - first == 1 else f"{noun}s {first}–{end - 1}"


def model_name(version: int) -> str:
    """w_3 as charts write it: ``w3``."""
    return f"w{version}"
