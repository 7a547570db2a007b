"""The paper's statements in its own words, and the rules by which they are judged: one function for each.

The docstring of a rule is its text in the report. Each returns whether the statement holds (None if the
figures leave it open) and the figures behind it. The definitions of final loss, fluctuation, tie, collapsed
and verdict are in `criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from slotwise.data import TITLES
from slotwise.paper.criteria import (
    Truth,
    below,
    every,
    falls,
    fluctuation,
    is_lowest,
    losses_over_same_rounds,
    lowest,
    mean_loss,
    some,
    unanimous,
)
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH
from slotwise.schedule import Schedule

Verdict = Literal["held", "not held", "not decided"]
Finding = tuple[Truth, Sequence[str]]
Rule = Callable[[Evidence], Finding]
BySize = Mapping[int, float]
Value = TypeVar("Value")
VERDICTS: dict[Truth, Verdict] = {True: "held", False: "not held", None: "not decided"}
BELOW = {True: "below", False: "not below", None: "not decided"}
TOO_SHORT = "the deadline is shorter than the paper's, and the statement is about the end"


class Statement(NamedTuple):
    """A statement of the paper."""

    name: str  # the number of the claim it belongs to, and a letter
    text: str  # the paper's words in quotation marks
    rule: Rule
    about_the_end: bool = True  # open if the deadline is shorter than the paper's


@dataclass(frozen=True)
class Judgement:
    """A statement, whether it holds, and the figures behind it."""

    statement: Statement
    data: str
    truth: Truth
    figures: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict in words."""
        return VERDICTS[self.truth]

    @property
    def rule(self) -> str:
        """The text of the rule: its docstring, so that the code and the report cannot differ."""
        return " ".join((self.statement.rule.__doc__ or "").split())


def judge(evidence: Evidence) -> tuple[Judgement, ...]:
    """Judge every statement about the data set of the evidence."""
    data, judgements = evidence.base.dataset.data, []
    for statement in STATEMENTS[data]:
        try:
            truth, figures = statement.rule(evidence)
        except Missing as missing:
            truth, figures = None, (str(missing),)
        if statement.about_the_end and not evidence.reaches_the_end:
            truth, figures = None, (*figures, TOO_SHORT)
        judgements.append(Judgement(statement, TITLES[data], truth, tuple(figures)))
    return tuple(judgements)


def fastest_at_50(evidence: Evidence) -> Finding:
    """S=50 has the lowest mean loss of the asynchronous runs."""
    speeds = _by_seed(evidence, lambda size: [mean_loss(c.points) for c in evidence.curves("async", size)])
    return unanimous(is_lowest(losses, 50) for losses in speeds), [_sizes_text("mean loss, async", speeds)]


def lowest_at_50(evidence: Evidence) -> Finding:
    """S=50 has the lowest final loss of the asynchronous runs."""
    return _lowest_at(evidence, "async", 50)


def highest_at_100(evidence: Evidence) -> Finding:
    """The final loss of async S=100 is above that of every other S."""
    finals = evidence.finals("async")
    others = [size for size in evidence.group_sizes if size != 100]
    truth = unanimous(every(below(losses[size], losses[100]) for size in others) for losses in finals)
    return truth, [_sizes_text("async", finals)]


def calmer_loss(evidence: Evidence) -> Finding:
    """The fluctuation of the loss of the asynchronous runs falls with S.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest. Collapsed runs
    are left out.
    """
    return _calmer(evidence, accuracy=False)


def calmer_accuracy(evidence: Evidence) -> Finding:
    """The fluctuation of the test accuracy of the asynchronous runs falls with S, by the same rule."""
    return _calmer(evidence, accuracy=True)


def mostly_below_async(evidence: Evidence) -> Finding:
    """At more than half of the S that leave room for a free delay, idfl ends with a lower loss than async.

    Where the free delay is 0 the two are one run and say nothing.
    """
    delayed = evidence.delayed_sizes()
    found = [idfl_against_async(evidence, size) for size in delayed]
    held, open_ = sum(truth is True for truth, _ in found), sum(truth is None for truth, _ in found)
    figures = [sentence for _, sentence in found]
    same = [str(size) for size in evidence.group_sizes if size not in delayed]
    if same:
        figures.append(f"no delay is free at S={', '.join(same)}: one run for both")
    if 2 * held > len(found):
        return True, figures
    return (None if 2 * (held + open_) > len(found) else False), figures


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
    gains, names = [], []
    for part in (sizes[:half], sizes[-half:]):
        differences = [np.subtract(evidence.final("async", s), evidence.final("idfl", s)) for s in part]
        gains.append(np.mean(differences, axis=0).tolist())  # for each seed
        names.append(", ".join(f"S={size}" for size in part))
    pairs = zip(*gains, strict=True)
    truth = unanimous(None if isnan(small + large) else small > large for small, large in pairs)
    return truth, [f"gain at {names[0]}: {mean_text(gains[0])}; at {names[1]}: {mean_text(gains[1])}"]


def same_at_all_devices(evidence: Evidence) -> Finding:
    """At S = N both schedules give the same timeline, and so the same run."""
    everyone = evidence.base.with_options(group_size=evidence.base.channel.devices)
    one, other = (everyone.with_options(schedule=schedule).simulate() for schedule in BOTH)
    columns = ("device", "version", "start", "end", "broadcast_end")
    same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
    return same, [f"device, model and slots of all {len(one):,} uplinks: {'equal' if same else 'different'}"]


def one_falls_below_hundred(evidence: Evidence) -> Finding:
    """S=1 ends above S=100 without intentional delay, and below it with."""
    before, after = evidence.final("async", 1), evidence.final("idfl", 1)
    hundred = evidence.final("async", 100)
    truth = every((_on_all_seeds(below, hundred, before), _on_all_seeds(below, after, hundred)))
    return truth, [f"S=100 {mean_text(hundred)}; S=1: async {mean_text(before)}, idfl {mean_text(after)}"]


def idfl_lowest_at_10(evidence: Evidence) -> Finding:
    """S=10 has the lowest final loss of the runs with intentional delay."""
    return _lowest_at(evidence, "idfl", 10)


def best_moves_down(evidence: Evidence) -> Finding:
    """The S with the lowest final loss is smaller for idfl than for async; collapsed runs are left out."""
    without, with_delay = evidence.finals("async"), evidence.finals("idfl")
    truth = unanimous(_smaller(lowest(b), lowest(a)) for a, b in zip(without, with_delay, strict=True))
    found = f"best S: async {_best_text(without)} (paper: 50), idfl {_best_text(with_delay)} (paper: 10)"
    return truth, [found, _sizes_text("async", without), _sizes_text("idfl", with_delay)]


def _smaller(some_sizes: Sequence[int], others: Sequence[int]) -> Truth:
    """Return whether all of some sizes are smaller than all others; None if that depends on a tie."""
    if not some_sizes or not others:
        return None
    return True if max(some_sizes) < min(others) else False if min(some_sizes) >= max(others) else None


def cifar10_async_best_5(evidence: Evidence) -> Finding:
    """S=5 has the lowest final loss of the asynchronous runs."""
    return _lowest_at(evidence, "async", 5)


def cifar10_async_best_10(evidence: Evidence) -> Finding:
    """S=10 has the lowest final loss of the asynchronous runs."""
    return _lowest_at(evidence, "async", 10)


def cifar10_idfl_best_5(evidence: Evidence) -> Finding:
    """S=5 has the lowest final loss of the runs with intentional delay."""
    return _lowest_at(evidence, "idfl", 5)


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
    """For at least one compute time, idfl with r=5 has the lower loss over the same rounds."""
    truths, figures = [], []
    for compute, link in evidence.slow_links:
        fast, slow = (evidence.curves("idfl", 1, (compute, slots)) for slots in (1, link))
        pairs = [
            (nan, nan)
            if evidence.has_collapsed(a) or evidence.has_collapsed(b)
            else losses_over_same_rounds(a.points, b.points)
            for a, b in zip(fast, slow, strict=True)
        ]
        truths.append(unanimous(below(b, a) for a, b in pairs))
        losses = f"r=1 {mean_text([a for a, _ in pairs])}, r={link} {mean_text([b for _, b in pairs])}"
        rounds = f"up to round {slow[0].points[-1].round:,}"
        figures.append(f"idfl, {compute} compute slots, {rounds}: {losses}")
    return some(truths) if truths else None, figures


def _calmer(evidence: Evidence, *, accuracy: bool) -> Finding:
    deadline, collapsed = evidence.base.deadline, []
    truths, columns = [], _by_seed(evidence, lambda size: evidence.curves("async", size))
    tables: list[dict[int, float]] = []
    for curves in columns:
        kept = {size: curve for size, curve in curves.items() if not evidence.has_collapsed(curve)}
        collapsed += [size for size in curves if size not in kept]
        table = {size: fluctuation(one.points, deadline, accuracy=accuracy) for size, one in kept.items()}
        tables.append(table)
        enough = len(table) > 2 and not any(map(isnan, table.values()))
        truths.append(falls(list(table.values())) if enough else None)
    sizes = [size for size in evidence.group_sizes if all(size in table for table in tables)]
    text = ", ".join(f"S={size} {np.mean([table[size] for table in tables]):.3g}" for size in sizes)
    figures = [f"fluctuation of the {'accuracy' if accuracy else 'loss'}: {text or 'none'}"]
    if collapsed:
        figures.append(f"left out, collapsed: S={', '.join(map(str, sorted(set(collapsed))))}")
    return unanimous(truths), figures


def _lowest_at(evidence: Evidence, schedule: Schedule, size: int) -> Finding:
    finals = evidence.finals(schedule)
    truth = unanimous(is_lowest(losses, size) for losses in finals)
    return truth, [f"best S: {_best_text(finals)}", _sizes_text(schedule, finals)]


def _by_seed(evidence: Evidence, column: Callable[[int], Sequence[Value]]) -> list[dict[int, Value]]:
    """Return a table by group size for each seed; ``column`` gives the values of one size, seed by seed."""
    columns = {size: column(size) for size in evidence.group_sizes}
    return [{size: values[i] for size, values in columns.items()} for i in range(len(evidence.seeds))]


def _on_all_seeds(compare: Callable[..., Truth], one: Iterable[float], other: Iterable[float]) -> Truth:
    return unanimous(compare(a, b) for a, b in zip(one, other, strict=True))


def mean_text(values: Sequence[float]) -> str:
    """Return the mean over the seeds as text, with four digits or as a whole number."""
    if any(map(isnan, values)):
        return "collapsed" if all(map(isnan, values)) else "collapsed on some seeds"
    mean = float(np.mean(values))
    return f"{mean:.4g}" if abs(mean) < 1000 else f"{mean:,.0f}"


def _best_text(finals: Sequence[BySize]) -> str:
    """Return the best group size of each seed as text, ties joined by a slash."""
    found = ["/".join(map(str, lowest(losses))) or "none" for losses in finals]
    return found[0] if len(set(found)) == 1 else ", ".join(found) + " (by seed)"


def _sizes_text(name: str, finals: Sequence[BySize]) -> str:
    """Return the mean over the seeds for every group size as text."""
    parts = (f"S={size} {mean_text([losses[size] for losses in finals])}" for size in finals[0])
    return f"{name}: " + ", ".join(parts)


EITHER = (
    Statement("2a", 'async: "As S increases, the global loss … is less fluctuated."', calmer_loss, False),
    Statement(
        "2b", 'async: "As S increases, the … test accuracy is less fluctuated."', calmer_accuracy, False
    ),
    Statement("3a", 'idfl achieves "relatively low global loss" against async.', mostly_below_async),
    Statement("3b", 'The reduction by idfl "is large for small S".', most_at_small_groups),
    Statement("3c", "At S = N async and idfl are identical.", same_at_all_devices, False),
)
STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "mnist": (
        Statement("1a", 'async: the loss "is reduced most rapidly with S=50".', fastest_at_50, False),
        Statement("1b", 'async: "S=50 achieves the lowest global loss".', lowest_at_50),
        Statement("1c", 'async: S=100 "is relatively high compared with other S".', highest_at_100),
        *EITHER,
        Statement(
            "4a",
            'idfl: the loss "with S=1 becomes lower than that with S=100 after applying intentional delay".',
            one_falls_below_hundred,
        ),
        Statement("4b", "idfl: the minimum is at S=10.", idfl_lowest_at_10),
        Statement(
            "4c", "idfl: the best S is smaller than for async (the paper: 10 instead of 50).", best_moves_down
        ),
        Statement("6a", "S=1: r=5 is worse than r=1 against slots.", slow_links_worse_in_slots),
        Statement(
            "6b", "S=1: r=5 can be better than r=1 against rounds.", slow_links_better_in_rounds, False
        ),
    ),
    "cifar10": (
        *EITHER,
        Statement("5a", "async: the best S is 5 (one sentence).", cifar10_async_best_5),
        Statement("5b", "async: the best S is 10 (another sentence).", cifar10_async_best_10),
        Statement("5c", "idfl: the best S is 5.", cifar10_idfl_best_5),
    ),
}
