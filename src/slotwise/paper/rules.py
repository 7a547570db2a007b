"""The rules by which statements of the paper are judged.

The docstring of a rule is its text in the report. A rule returns whether its statement holds (None if the
figures leave it open) and the figures behind that. `criteria` defines final loss, fluctuation, tie, collapsed
and verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite, isnan, nan
from statistics import fmean

import numpy as np

from slotwise.paper.criteria import (
    Truth,
    below,
    every,
    falls,
    fluctuation,
    is_lowest,
    losses_over_same_rounds,
    lowest,
    majority,
    mean_loss,
    mean_loss_over_rounds,
    some,
    ties,
    unanimous,
)
from slotwise.paper.evidence import Curve, Evidence, Statistic, mean_text
from slotwise.paper.experiments import BOTH, Schedules
from slotwise.schedule import Schedule

# Whether a statement holds, and the figures behind that: the first is short enough for a cell of a table.
Finding = tuple[Truth, Sequence[str]]
BySize = Mapping[int, float]
BELOW = {True: "below", False: "not below", None: "not decided"}
NO_DELAY = "needs a group size with a delay"
# The words of rules for the schedules.
RUNS: Mapping[str, Schedule] = {"asynchronous runs": "async", "runs with intentional delay": "idfl"}


def lowest_loss(evidence: Evidence, size: int, loss: str, runs: str) -> Finding:
    """S={size} has the lowest {loss} of the {runs}; a collapsed run never has."""
    schedule = RUNS[runs]
    is_final = loss == "final loss"
    tables = evidence.finals(schedule) if is_final else evidence.measured_by_size(schedule, mean_loss)
    truth = unanimous(is_lowest(losses, size) for losses in tables)
    name = schedule if is_final else f"{loss}, {schedule}"
    return truth, [f"lowest at S={_best_text(tables)}", _sizes_text(name, tables)]


def highest_at_100(evidence: Evidence) -> Finding:
    """The final loss of async S=100 is above that of every other S."""
    finals = evidence.finals("async")
    others = [size for size in evidence.group_sizes if size != 100]
    truth = unanimous(every(below(losses[size], losses[100]) for size in others) for losses in finals)
    # The lowest of the negative losses is the highest loss.
    highest = _best_text([{size: -loss for size, loss in losses.items()} for losses in finals])
    return truth, [f"highest at S={highest}", _sizes_text("async", finals)]


def faster_by_rounds(evidence: Evidence) -> Finding:
    """The mean loss over the rounds that the largest S completes falls with S, for the asynchronous runs.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest. Runs that
    collapse, even later, are left out. Small S are evaluated only a few times within these rounds; the loss
    is linear in between.
    """
    # The fewest of all seeds: every curve of the largest S reaches so many.
    rounds = min(curve.points[-1].round for curve in evidence.curves("async", evidence.group_sizes[-1]))
    title = f"mean loss over {rounds:,} rounds, async"
    return _trend(evidence, lambda points: mean_loss_over_rounds(points, rounds), title)


def calmer_loss(evidence: Evidence) -> Finding:
    """The fluctuation of the loss of the asynchronous runs falls with S.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest. Collapsed runs
    are left out.
    """
    deadline = evidence.base.deadline
    return _trend(evidence, lambda points: fluctuation(points, deadline), "fluctuation of the loss")


def calmer_accuracy(evidence: Evidence) -> Finding:
    """The fluctuation of the test accuracy of the asynchronous runs falls with S, by the same rule."""
    deadline, title = evidence.base.deadline, "fluctuation of the accuracy"
    return _trend(evidence, lambda points: fluctuation(points, deadline, accuracy=True), title)


def _trend(evidence: Evidence, statistic: Statistic, title: str) -> Finding:
    """Return whether a statistic of the asynchronous runs falls with S; collapsed runs are left out."""
    truths, tables = [], []
    for curves in evidence.by_size("async"):
        kept = {size: statistic(c.points) for size, c in curves.items() if not c.has_collapsed}
        # Two group sizes that did not collapse are no trend.
        enough = len(kept) > 2 and not any(map(isnan, kept.values()))
        truths.append(falls(list(kept.values())) if enough else None)
        tables.append({size: kept.get(size, nan) for size in curves})
    return unanimous(truths), [_ends_text(tables), _sizes_text(title, tables)]


def mostly_below_async(evidence: Evidence) -> Finding:
    """At more than half of the S that leave room for a free delay, idfl ends with a lower loss than async.

    Where the free delay is 0 the two are one run and say nothing. S at which both collapse are left out.
    """
    delayed = evidence.delayed_sizes()
    by_seed = _compared_by_seed([(evidence.final("idfl", s), evidence.final("async", s)) for s in delayed])
    if not by_seed:
        return None, [NO_DELAY]
    figures = [f"below at {_counts_text(by_seed)}"]
    figures += [idfl_against_async(evidence, size)[1] for size in delayed]
    same = [str(size) for size in evidence.group_sizes if size not in delayed]
    if same:
        figures.append(f"no delay is free at S={', '.join(same)}: one run for both")
    return unanimous(map(majority, by_seed)), figures


def mostly_faster_than_async(evidence: Evidence) -> Finding:
    """At more than half of the S that leave room for a free delay, idfl has a lower mean loss than async.

    S at which both collapse are left out.
    """
    delayed = evidence.delayed_sizes()
    pairs = [tuple(evidence.measured(s, size, mean_loss) for s in ("idfl", "async")) for size in delayed]
    by_seed = _compared_by_seed(pairs)
    if not by_seed:
        return None, [NO_DELAY]
    figures = [
        f"mean loss at S={size}: idfl {mean_text(idfl)}, async {mean_text(without)}"
        for size, (idfl, without) in zip(delayed, pairs, strict=True)
    ]
    return unanimous(map(majority, by_seed)), [f"below at {_counts_text(by_seed)}", *figures]


def idfl_against_async(evidence: Evidence, size: int) -> tuple[Truth, str]:
    """Return whether idfl ends below async at one group size, and the figures in a sentence."""
    without, with_delay = evidence.final("async", size), evidence.final("idfl", size)
    truth = unanimous(map(below, with_delay, without))
    return truth, f"S={size}: idfl {mean_text(with_delay)}, async {mean_text(without)}: {BELOW[truth]}"


def most_at_small_groups(evidence: Evidence) -> Finding:
    """The smaller half of the S with a delay gains, and more than the larger half.

    The gain is the final loss of async minus that of idfl, averaged over the half; a middle S is left out,
    and so are S at which both collapse. A collapsed run has the loss that was measured, but at least that of
    the other run.
    """
    sizes = evidence.delayed_sizes()
    half = len(sizes) // 2
    if not half:
        return None, ["needs two group sizes with a delay"]
    gains = [_mean_gains(evidence, part) for part in (sizes[:half], sizes[-half:])]
    names = [", ".join(f"S={size}" for size in part) for part in (sizes[:half], sizes[-half:])]
    truth = unanimous(
        # NaN: both collapsed everywhere.
        None if isnan(small + large) or ties(small, large) else small > max(large, 0.0)
        for small, large in zip(*gains, strict=True)
    )
    return truth, [f"gain at {names[0]}: {mean_text(gains[0])}; at {names[1]}: {mean_text(gains[1])}"]


def _mean_gains(evidence: Evidence, sizes: Sequence[int]) -> list[float]:
    """Return the mean gain over some group sizes for each seed; NaN if both runs collapse at all of them."""
    pairs = [zip(evidence.curves("async", s), evidence.curves("idfl", s), strict=True) for s in sizes]
    seeds = [[_gain(*pair) for pair in of_seed] for of_seed in zip(*pairs, strict=True)]
    known = [[gain for gain in gains if not isnan(gain)] for gains in seeds]
    return [fmean(gains) if gains else nan for gains in known]


def _gain(without: Curve, with_delay: Curve) -> float:
    """Return how much lower idfl ends; NaN if both collapsed, and not on the side of a collapsed run."""
    if without.has_collapsed and with_delay.has_collapsed:
        return nan
    gain = without.final_loss - with_delay.final_loss
    return max(gain, 0.0) if without.has_collapsed else min(gain, 0.0) if with_delay.has_collapsed else gain


def same_at_all_devices(evidence: Evidence) -> Finding:
    """At S = N both schedules give the same timeline, and so the same run."""
    everyone = evidence.base.with_options(group_size=evidence.base.channel.devices)
    one, other = (everyone.with_options(schedule=schedule).simulate() for schedule in BOTH)
    columns = ("device", "version", "start", "end", "broadcast_end")
    same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
    short = "equal" if same else "different"
    return same, [short, f"device, model and slots of all {len(one):,} uplinks: {short}"]


def one_falls_below_hundred(evidence: Evidence) -> Finding:
    """S=1 ends above S=100 without intentional delay, and below it with."""
    before, after = evidence.final("async", 1), evidence.final("idfl", 1)
    # S=100 is all devices, for which async and idfl are the same run.
    hundred = evidence.final("async", 100)
    truth = unanimous(
        every((below(h, b), below(a, h))) for b, a, h in zip(before, after, hundred, strict=True)
    )
    return truth, [f"S=100 {mean_text(hundred)}; S=1: async {mean_text(before)}, idfl {mean_text(after)}"]


def best_moves_down(evidence: Evidence) -> Finding:
    """The S with the lowest final loss is smaller for idfl than for async; a collapsed run never has it."""
    without, with_delay = evidence.finals("async"), evidence.finals("idfl")
    truth = unanimous(_smaller(lowest(b), lowest(a)) for a, b in zip(without, with_delay, strict=True))
    found = f"best S: async {_best_text(without)} (paper: 50), idfl {_best_text(with_delay)} (paper: 10)"
    return truth, [found, _sizes_text("async", without), _sizes_text("idfl", with_delay)]


def _smaller(some_sizes: Sequence[int], others: Sequence[int]) -> Truth:
    """Return whether all of some sizes are smaller than all others; None if that depends on a tie."""
    if not some_sizes or not others:
        return None
    return True if max(some_sizes) < min(others) else False if min(some_sizes) >= max(others) else None


def faster_than_all_devices(evidence: Evidence) -> Finding:
    """At more than half of the S below N, async has a lower mean loss than synchronous FL of all devices."""
    *sizes, everyone = evidence.group_sizes  # at S = N async is sync
    return _faster_than(evidence, sizes, lambda _: ("async", everyone))


def faster_than_sync(evidence: Evidence) -> Finding:
    """At more than half of the S at which synchronous FL was trained, async has a lower mean loss than it.

    Participants take turns. Where there is no such run, the statement is open.
    """
    sizes = [size for size in Schedules.group_sizes if size in evidence.group_sizes]
    return _faster_than(evidence, sizes, lambda size: ("sync", size))


def _faster_than(
    evidence: Evidence, sizes: Sequence[int], other: Callable[[int], tuple[Schedule, int]]
) -> Finding:
    """Return whether async has a lower mean loss than another run at more than half of some group sizes."""
    pairs = [
        (evidence.measured("async", s, mean_loss), evidence.measured(*other(s), mean_loss)) for s in sizes
    ]
    by_seed = _compared_by_seed(pairs)
    if not by_seed:
        return None, ["no synchronous FL was trained with these group sizes"]
    figures = [
        f"mean loss at S={size}: async {mean_text(one)}, sync {mean_text(sync)}"
        for size, (one, sync) in zip(sizes, pairs, strict=True)
    ]
    return unanimous(map(majority, by_seed)), [f"below at {_counts_text(by_seed)}", *figures]


def slow_links_worse_in_slots(evidence: Evidence) -> Finding:
    """At S=1 the final loss with r=5 is above that with r=1, for every compute time and both schedules.

    Where the runs with both r collapse, they are left out.
    """
    pairs, figures = [], []
    for compute, link in evidence.slow_links:
        for schedule in BOTH:
            fast, slow = (evidence.final(schedule, 1, (compute, slots)) for slots in (1, link))
            pairs.append((fast, slow))
            losses = f"r=1 {mean_text(fast)}, r={link} {mean_text(slow)}"
            figures.append(f"{schedule}, {compute} compute slots: {losses}")
    return _of_slow_links(every, pairs, figures, "above")


def slow_links_better_in_rounds(evidence: Evidence) -> Finding:
    """For at least one compute time, idfl with r=5 has the lower loss over the same rounds.

    Where the runs with both r collapse, they are left out.
    """
    pairs, figures = [], []
    for compute, link in evidence.slow_links:
        fast, slow = (evidence.curves("idfl", 1, (compute, slots)) for slots in (1, link))
        losses = [losses_over_same_rounds(a.points, b.points) for a, b in zip(fast, slow, strict=True)]
        with_fast, with_slow = (
            [inf if c.has_collapsed else loss for c, loss in zip(curves, own, strict=True)]
            for curves, own in zip((fast, slow), zip(*losses, strict=True), strict=True)
        )
        pairs.append((with_slow, with_fast))
        rounds = max(curve.points[-1].round for curve in slow)
        text = f"r=1 {mean_text(with_fast)}, r={link} {mean_text(with_slow)}"
        figures.append(f"idfl, {compute} compute slots, up to round {rounds:,}: {text}")
    return _of_slow_links(some, pairs, figures, "below")


def _of_slow_links(
    combine: Callable[[Iterable[Truth]], Truth],
    pairs: Sequence[tuple[Sequence[float], ...]],
    figures: Sequence[str],
    where: str,
) -> Finding:
    """Combine whether the first losses of each pair are below the second, seed by seed."""
    by_seed = _compared_by_seed(pairs)
    if not by_seed:
        return None, ["there are no runs with slow links"]
    short = f"r=5 {where} r=1 at {_counts_text(by_seed)}"
    return unanimous(map(combine, by_seed)), [short, *figures]


def _compared_by_seed(pairs: Iterable[tuple[Sequence[float], ...]]) -> list[tuple[Truth, ...]]:
    """Return for each seed whether the first of each pair is below the second; a pair has all seeds.

    A statement is judged on each seed by itself, so the table is turned. Pairs of runs that both collapsed
    are left out.
    """
    turned = zip(*(zip(one, other, strict=True) for one, other in pairs), strict=True)
    return [tuple(below(one, other) for one, other in of_seed if min(one, other) < inf) for of_seed in turned]


def _best_text(finals: Sequence[BySize]) -> str:
    """Return the best group size of each seed as text, ties joined by a slash."""
    found = ["/".join(map(str, lowest(losses))) or "none" for losses in finals]
    return found[0] if len(set(found)) == 1 else ", ".join(found) + " (by seed)"


def _ends_text(tables: Sequence[BySize]) -> str:
    """Return the means at the smallest and the largest group size that did not collapse on every seed."""
    known = [size for size in tables[0] if any(isfinite(table[size]) for table in tables)]
    ends = [f"S={size} {mean_text([table[size] for table in tables])}" for size in known]
    return f"{ends[0]}, {ends[-1]}" if ends else "all collapsed"


def _counts_text(truths: Sequence[Sequence[Truth]]) -> str:
    """Return how many of the truths of each seed are true, as text."""
    counts = [f"{sum(truth is True for truth in of_seed)} of {len(of_seed)}" for of_seed in truths]
    return counts[0] if len(set(counts)) == 1 else ", ".join(counts) + " (by seed)"


def _sizes_text(name: str, finals: Sequence[BySize]) -> str:
    """Return the mean over the seeds for every group size as text."""
    parts = (f"S={size} {mean_text([losses[size] for losses in finals])}" for size in finals[0])
    return f"{name}: " + ", ".join(parts)
