"""The rules by which the claims are judged: one function for each statement of a claim.

The docstring of a rule is its text in the report. The rules were written before the runs they judge were
looked at. Each returns whether the statement holds (None if the figures leave it open) and the figures behind
it. The definitions of final loss, fluctuation, tie and "clearly" are in `criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from slotwise.paper.criteria import (
    Truth,
    below,
    clearly_above,
    every,
    falls,
    fluctuation,
    losses_over_same_rounds,
    lowest,
    some,
    unanimous,
)
from slotwise.paper.evidence import Evidence
from slotwise.paper.experiments import BOTH
from slotwise.schedule import Schedule

Finding = tuple[Truth, Sequence[str]]
BELOW = {True: "below", False: "not below", None: "not decided"}


def lowest_at_50(evidence: Evidence) -> Finding:
    """S=50 has the lowest final loss of the asynchronous runs."""
    finals = evidence.finals("async")
    return unanimous(_only(lowest(losses), (50,)) for losses in finals), [sizes_text("async", finals)]


def hundred_clearly_worse(evidence: Evidence) -> Finding:
    """The final loss of async S=100 is at least 10 % above that of S=50."""
    hundred, fifty = evidence.final("async", 100), evidence.final("async", 50)
    truth = _on_all_seeds(clearly_above, hundred, fifty)
    change = f"{np.mean(hundred) / np.mean(fifty) - 1:+.1%}"
    return truth, [f"S=100 {mean_text(hundred)}, S=50 {mean_text(fifty)}: {change}"]


def calmer_as_groups_grow(evidence: Evidence) -> Finding:
    """The fluctuation of the asynchronous curves falls with S.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest.
    """
    columns = {size: _fluctuations(evidence, size) for size in evidence.group_sizes}
    if np.isnan(list(columns.values())).any():
        return None, ["too few evaluations in the second half"]
    truth = unanimous(falls(values) for values in zip(*columns.values(), strict=True))
    figures = (f"S={size} {np.mean(values):.3f}" for size, values in columns.items())
    return truth, ["fluctuation " + ", ".join(figures)]


def below_async(evidence: Evidence) -> Finding:
    """At every S that leaves room for a free delay, the final loss of idfl is below that of async.

    Where the free delay is 0 the two are one run and say nothing.
    """
    truths, figures = [], []
    for size in evidence.delayed_sizes():
        truth, sentence = idfl_against_async(evidence, size)
        truths.append(truth)
        figures.append(sentence)
    same = [str(size) for size in evidence.group_sizes if size not in evidence.delayed_sizes()]
    if same:
        figures.append(f"no delay is free at S={', '.join(same)}: one run for both")
    return every(truths) if truths else None, figures


def idfl_against_async(evidence: Evidence, size: int) -> tuple[Truth, str]:
    """Return whether idfl ends below async at one group size, and the figures in a sentence."""
    without, with_delay = evidence.final("async", size), evidence.final("idfl", size)
    truth = _on_all_seeds(below, with_delay, without)
    return truth, f"S={size}: idfl {mean_text(with_delay)}, async {mean_text(without)}: {BELOW[truth]}"


def most_at_small_groups(evidence: Evidence) -> Finding:
    """The smaller half of the S with a delay gains more than the larger half.

    The gain is the final loss of async minus that of idfl, averaged over the half; a middle S is left out.
    """
    sizes = evidence.delayed_sizes()
    half = len(sizes) // 2
    if not half:
        return None, ["needs two group sizes with a delay"]
    small, large = _gains(evidence, sizes[:half]), _gains(evidence, sizes[-half:])
    truth = unanimous(a > b for a, b in zip(small, large, strict=True))
    names = [", ".join(f"S={size}" for size in part) for part in (sizes[:half], sizes[-half:])]
    return truth, [f"gain at {names[0]}: {mean_text(small)}; at {names[1]}: {mean_text(large)}"]


def same_at_all_devices(evidence: Evidence) -> Finding:
    """At S = N both schedules give the same timeline, and so the same run."""
    everyone = evidence.base.with_options(group_size=evidence.base.channel.devices)
    one = everyone.with_options(schedule="async").simulate()
    other = everyone.with_options(schedule="idfl").simulate()
    columns = ("device", "version", "start", "end", "broadcast_end")
    same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
    return same, [f"device, model and slots of all {len(one):,} uplinks: {'equal' if same else 'different'}"]


def best_moves_down(evidence: Evidence) -> Finding:
    """The S with the lowest final loss is smaller for idfl than for async."""
    without, with_delay = evidence.finals("async"), evidence.finals("idfl")
    pairs = zip(without, with_delay, strict=True)
    truth = unanimous(_moves_down(lowest(a), lowest(b)) for a, b in pairs)
    found = f"best S: async {best_text(without)} (paper: 50), idfl {best_text(with_delay)} (paper: 10)"
    return truth, [found, sizes_text("async", without), sizes_text("idfl", with_delay)]


def one_below_hundred(evidence: Evidence) -> Finding:
    """The final loss of idfl S=1 is below that of S=100."""
    one, hundred = evidence.final("idfl", 1), evidence.final("idfl", 100)
    truth = _on_all_seeds(below, one, hundred)
    return truth, [f"S=1 {mean_text(one)}, S=100 {mean_text(hundred)}"]


def cifar10_async_best(evidence: Evidence) -> Finding:
    """The S with the lowest final loss of the asynchronous runs is 5 or 10."""
    return _best_among(evidence, "async", (5, 10))


def cifar10_idfl_best(evidence: Evidence) -> Finding:
    """The S with the lowest final loss of the runs with intentional delay is 5."""
    return _best_among(evidence, "idfl", (5,))


def slow_links_worse_in_slots(evidence: Evidence) -> Finding:
    """At S=1 the final loss with r=5 is above that with r=1, for every compute time and both schedules."""
    truths, figures = [], []
    for compute, link in evidence.slow_links:
        for schedule in BOTH:
            fast = evidence.final(schedule, 1, (compute, 1))
            slow = evidence.final(schedule, 1, (compute, link))
            truths.append(_on_all_seeds(below, fast, slow))
            losses = f"r=1 {mean_text(fast)}, r={link} {mean_text(slow)}"
            figures.append(f"{schedule}, {compute} compute slots: {losses}")
    return every(truths) if truths else None, figures


def slow_links_better_in_rounds(evidence: Evidence) -> Finding:
    """For at least one compute time, idfl with r=5 has the lower loss over the same rounds.

    The loss is the mean over the last tenth of the rounds that r=5 allows; r=1 is read at the same rounds.
    """
    truths, figures = [], []
    for compute, link in evidence.slow_links:
        fast, slow = (evidence.curves("idfl", 1, (compute, slots)) for slots in (1, link))
        pairs = [losses_over_same_rounds(a.points, b.points) for a, b in zip(fast, slow, strict=True)]
        truths.append(unanimous(below(b, a) for a, b in pairs))
        means = [mean_text([pair[i] for pair in pairs]) for i in range(2)]
        rounds = slow[0].points[-1].round
        losses = f"r=1 {means[0]}, r={link} {means[1]}"
        figures.append(f"idfl, {compute} compute slots, up to round {rounds:,}: {losses}")
    return some(truths) if truths else None, figures


def _on_all_seeds(compare: Callable[..., Truth], one: Iterable[float], other: Iterable[float]) -> Truth:
    return unanimous(compare(a, b) for a, b in zip(one, other, strict=True))


def _fluctuations(evidence: Evidence, size: int) -> list[float]:
    return [fluctuation(curve.points, evidence.base.deadline) for curve in evidence.curves("async", size)]


def _gains(evidence: Evidence, sizes: Iterable[int]) -> list[float]:
    """Return the final loss of async minus that of idfl, averaged over the sizes, for each seed."""
    differences = [np.subtract(evidence.final("async", s), evidence.final("idfl", s)) for s in sizes]
    return [float(value) for value in np.mean(differences, axis=0)]


def _moves_down(before: tuple[int, ...], after: tuple[int, ...]) -> Truth:
    """Return whether the best S, ties included, became smaller; None if that depends on a tie."""
    if max(after) < min(before):
        return True
    return False if min(after) >= max(before) else None


def _best_among(evidence: Evidence, schedule: Schedule, allowed: tuple[int, ...]) -> Finding:
    finals = evidence.finals(schedule)
    truth = unanimous(_only(lowest(losses), allowed) for losses in finals)
    return truth, [f"best S: {best_text(finals)}", sizes_text(schedule, finals)]


def _only(found: tuple[int, ...], allowed: tuple[int, ...]) -> Truth:
    """Return whether all found sizes are allowed; None if only some are."""
    inside = {size in allowed for size in found}
    return None if len(inside) == 2 else inside.pop()


def mean_text(values: Sequence[float]) -> str:
    """Return the mean over the seeds as text, with four digits or as a whole number."""
    mean = float(np.mean(values))
    return f"{mean:.4g}" if abs(mean) < 1000 else f"{mean:,.0f}"


def best_text(finals: Sequence[dict[int, float]]) -> str:
    """Return the best group size of each seed as text, ties joined by a slash."""
    found = ["/".join(map(str, lowest(losses))) for losses in finals]
    return found[0] if len(set(found)) == 1 else ", ".join(found) + " (by seed)"


def sizes_text(schedule: Schedule, finals: Sequence[dict[int, float]]) -> str:
    """Return the mean final loss of every group size as text."""
    parts = (f"S={size} {mean_text([losses[size] for losses in finals])}" for size in finals[0])
    return f"{schedule}: " + ", ".join(parts)
