"""The findings of the tuned study in sentences; what is not known yet is left out or said to be open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean

from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.tuned import DEADLINE, PILOT_DEADLINE
from slotwise.paper.tuned_advice import advice_lines
from slotwise.paper.tuned_results import (
    TunedMethod,
    by_group_size,
    number,
    step_text,
    with_pilots,
)
from slotwise.paper.tuned_rules import Case, case_of
from slotwise.report.colours import SCHEDULE_COLOURS


def findings(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield what the runs so far say, as a list."""
    lines = chain(
        _overall(methods),
        _judged_winners(methods),
        _pilot_winners(methods),
        _collapse(methods),
        advice_lines(methods),
    )
    yield "\n".join(f"- {line}" for line in lines) or "None yet."


def _overall(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield each schedule at its best group size: of judged runs if all have some, else of pilots."""
    known = [one for one in with_pilots(methods) if one.schedule in SCHEDULE_COLOURS]
    names = {one.schedule for one in known}
    judged = [one for one in known if one.judged]
    is_judged = len(names) > 1 and {one.schedule for one in judged} == names
    best: dict[str, Case] = {}
    for one in judged if is_judged else known:
        case = case_of(one, is_judged=is_judged)
        best[one.schedule] = min(best.get(one.schedule, case), case, key=lambda other: other.loss)
    if len(best) > 1:
        losses = ", ".join(f"{name} {number(case.loss)} (S={case.size})" for name, case in best.items())
        runs = "Judged runs" if is_judged else f"Pilots (one seed, {PILOT_DEADLINE:,} of {DEADLINE:,} slots)"
        yield f"{runs}, each schedule at its best S and step: {losses}."


def _judged_winners(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield which schedule ends lowest with every judging seed, at each group size that is complete."""
    for size, own in by_group_size(methods).items():
        judged = {one.schedule: [curve.final_loss for curve in one.judged] for one in own if one.judged}
        if len(judged) > 1:
            seeds = zip(*judged.values(), strict=True)
            best = {min(zip(losses, judged, strict=True))[1] for losses in seeds}
            means = ", ".join(f"{name} {number(fmean(losses))}" for name, losses in judged.items())
            winner = f"{best.pop()} ends lowest with every seed" if len(best) == 1 else "the seeds disagree"
            yield f"Judged, S={size}: {winner} ({means})."
    if not any(one.judged for one in methods):
        yield "Nothing is judged yet: whether idfl wins at full length when all are tuned is open."


def _pilot_winners(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield which schedule has the lowest pilot, at each group size with at least two."""
    for size, own in by_group_size(with_pilots(methods)).items():
        if len(own) > 1:
            losses = {one.schedule: one.best_pilot.final_loss for one in own}
            best = min(losses, key=lambda name: losses[name])
            means = ", ".join(f"{name} {number(loss)}" for name, loss in losses.items())
            yield f"Pilots, S={size}, each at its best step: {best} is lowest ({means}). One seed."


def _collapse(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield whether methods that collapse with the paper's step learn with their own."""
    for one in with_pilots(methods):
        if one.schedule in ("async", "idfl") and one.method.group_size == 1:
            curve = one.best_pilot
            learns = "learns" if curve.final_accuracy > COLLAPSED else "does not learn"
            step, accuracy = step_text(one.pilot_power), f"{curve.final_accuracy:.1%}"
            collapsed = f"{one.method.name}, which collapses with the step 0.01"
            yield f"{collapsed}, {learns} with {step}: {accuracy} (pilot)."
