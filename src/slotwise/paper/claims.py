"""The paper's statements in its own words, and the rules by which they are judged.

The docstring of a rule, with the parameters of the statement filled in, is its text in the report. A rule
returns whether the statement holds (None if the figures leave it open) and the figures behind it. The
definitions of final loss, fluctuation, tie, collapsed and verdict are in `criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Literal

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
    majority,
    mean_loss,
    mean_loss_over_rounds,
    some,
    ties,
    unanimous,
)
from slotwise.paper.evidence import Evidence, Missing, Statistic, mean_text
from slotwise.paper.experiments import BOTH
from slotwise.schedule import Schedule

Verdict = Literal["held", "not held", "not decided"]
# Whether a statement holds, and the figures behind that: the first is short enough for a cell of a table.
Finding = tuple[Truth, Sequence[str]]
BySize = Mapping[int, float]
VERDICTS: dict[Truth, Verdict] = {True: "held", False: "not held", None: "not decided"}
BELOW = {True: "below", False: "not below", None: "not decided"}
TOO_SHORT = "the deadline is shorter than the paper's, and the statement is about the end"
NO_DELAY = "needs a group size with a delay"

ASYNC, IDFL, COMPARISON = "Performance of asynchronous FL", "Performance of IDFL", "Comparison"
TRADEOFF = "Tradeoff at S=1"
# The words of rules for the schedules.
RUNS: Mapping[str, Schedule] = {"asynchronous runs": "async", "runs with intentional delay": "idfl"}


@dataclass(frozen=True)
class Statement:
    """A statement of the paper.

    Attributes:
        name: The number of the claim it belongs to, and a letter.
        text: The paper's words in quotation marks.
        rule: Judges it.
        figure: The paper's figure it is about.
        about_the_end: True if it is open where the deadline is shorter than the paper's.
        parameters: Arguments of the rule beside the evidence.
    """

    name: str
    text: str
    rule: Callable[..., Finding]
    figure: str = ASYNC
    about_the_end: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)


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
        text = (self.statement.rule.__doc__ or "").format(**self.statement.parameters)
        return " ".join(text.split())


def judge(evidence: Evidence) -> tuple[Judgement, ...]:
    """Judge every statement about the data set of the evidence."""
    data, judgements = evidence.base.dataset.data, []
    for statement in STATEMENTS[data]:
        try:
            truth, figures = statement.rule(evidence, **statement.parameters)
        except Missing as missing:
            truth, figures = None, ("not trained yet", str(missing))
        if statement.about_the_end and not evidence.reaches_the_end:
            truth, figures = None, (*figures, TOO_SHORT)
        judgements.append(Judgement(statement, TITLES[data], truth, tuple(figures)))
    return tuple(judgements)


def lowest_loss(evidence: Evidence, size: int, loss: str, runs: str) -> Finding:
    """S={size} has the lowest {loss} of the {runs} that did not collapse."""
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

    Where the free delay is 0 the two are one run and say nothing.
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
    """At more than half of the S that leave room for a free delay, idfl has a lower mean loss than async."""
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
    truth = unanimous(
        # A collapsed run makes a gain NaN, and so the sum.
        None if isnan(small + large) or ties(small, large) else small > max(large, 0.0)
        for small, large in zip(*gains, strict=True)
    )
    return truth, [f"gain at {names[0]}: {mean_text(gains[0])}; at {names[1]}: {mean_text(gains[1])}"]


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


def slow_links_worse_in_slots(evidence: Evidence) -> Finding:
    """At S=1 the final loss with r=5 is above that with r=1, for every compute time and both schedules."""
    pairs, figures = [], []
    for compute, link in evidence.slow_links:
        for schedule in BOTH:
            fast, slow = (evidence.final(schedule, 1, (compute, slots)) for slots in (1, link))
            pairs.append((fast, slow))
            losses = f"r=1 {mean_text(fast)}, r={link} {mean_text(slow)}"
            figures.append(f"{schedule}, {compute} compute slots: {losses}")
    return _of_slow_links(every, pairs, figures, "above")


def slow_links_better_in_rounds(evidence: Evidence) -> Finding:
    """For at least one compute time, idfl with r=5 has the lower loss over the same rounds."""
    pairs, figures = [], []
    for compute, link in evidence.slow_links:
        fast, slow = (evidence.curves("idfl", 1, (compute, slots)) for slots in (1, link))
        losses = [losses_over_same_rounds(a.points, b.points) for a, b in zip(fast, slow, strict=True)]
        with_fast, with_slow = (
            [nan if c.has_collapsed else loss for c, loss in zip(curves, own, strict=True)]
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

    A statement is judged on each seed by itself, so the table is turned.
    """
    return list(zip(*(map(below, one, other) for one, other in pairs), strict=True))


def _best_text(finals: Sequence[BySize]) -> str:
    """Return the best group size of each seed as text, ties joined by a slash."""
    found = ["/".join(map(str, lowest(losses))) or "none" for losses in finals]
    return found[0] if len(set(found)) == 1 else ", ".join(found) + " (by seed)"


def _ends_text(tables: Sequence[BySize]) -> str:
    """Return the means at the smallest and the largest group size that did not collapse on every seed."""
    known = [size for size in tables[0] if not all(isnan(table[size]) for table in tables)]
    ends = [f"S={size} {mean_text([table[size] for table in tables])}" for size in known]
    return f"{ends[0]}, {ends[-1]}" if ends else "all collapsed"


def _counts_text(truths: Sequence[Sequence[Truth]]) -> str:
    """Return how many of the truths of each seed are true, as text."""
    counts = [str(sum(truth is True for truth in of_seed)) for of_seed in truths]
    by_seed = counts[0] if len(set(counts)) == 1 else ", ".join(counts)
    return f"{by_seed} of {len(truths[0])}{' (by seed)' if len(set(counts)) > 1 else ''}"


def _sizes_text(name: str, finals: Sequence[BySize]) -> str:
    """Return the mean over the seeds for every group size as text."""
    parts = (f"S={size} {mean_text([losses[size] for losses in finals])}" for size in finals[0])
    return f"{name}: " + ", ".join(parts)


def _any_time(name: str, text: str, rule: Callable[..., Finding], figure: str = ASYNC) -> Statement:
    """Return a statement that is not about the end."""
    return Statement(name, text, rule, figure, about_the_end=False)


def _lowest(
    name: str, text: str, size: int, schedule: Schedule = "async", loss: str = "final loss"
) -> Statement:
    """Return a statement about the group size with the lowest loss."""
    runs = next(words for words, one in RUNS.items() if one == schedule)
    parameters = {"size": size, "loss": loss, "runs": runs}
    figure = ASYNC if schedule == "async" else IDFL
    return Statement(name, text, lowest_loss, figure, loss == "final loss", parameters)


LARGE_S = "with respect to training rounds, it is clearly seen that large S shows rapid decreasing"
MOVES = '"the optimal S changes from S=10 to S=5 due to the intentional delay"'
ONE_LOWER = "with S=1 becomes lower than that with S=100 after applying intentional delay"
MINIMUM = "the minimum global loss is achieved with S=10 when intentional delay is applied"
SMALLER = 'idfl: "we can use a relatively smaller TDMA group size" (10 instead of 50).'
R5_HIGH = "global loss for r=5 is relatively high compared with that of r=1"
R5_LOW = "global loss of r=5 with respect to training round can be lower than that of r=1"
BOTH_DATA_SETS = (
    _any_time("1d", f'async: "{LARGE_S}".', faster_by_rounds),
    _any_time("2a", 'async: "as S increases, the global loss … is less fluctuated".', calmer_loss),
    _any_time("2b", 'async: "as S increases, the … test accuracy is less fluctuated".', calmer_accuracy),
    Statement("3a", 'idfl achieves "relatively low global loss" against async.', mostly_below_async, IDFL),
    Statement("3b", 'The reduction by idfl "is large for small S".', most_at_small_groups, COMPARISON),
    _any_time("3c", "At S = N async and idfl are identical.", same_at_all_devices, IDFL),
    _any_time(
        "3d", 'idfl "can rapidly reduce global loss" (abstract).', mostly_faster_than_async, COMPARISON
    ),
)
STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "mnist": (
        _lowest("1a", 'async: the loss "is reduced most rapidly with S=50".', 50, loss="mean loss"),
        _lowest("1b", 'async: "S=50 achieves the lowest global loss".', 50),
        Statement("1c", 'async: S=100 "is relatively high compared with other S".', highest_at_100),
        *BOTH_DATA_SETS,
        Statement("4a", f'idfl: the loss "{ONE_LOWER}".', one_falls_below_hundred, IDFL),
        _lowest("4b", f'idfl: "{MINIMUM}".', 10, "idfl"),
        Statement("4c", SMALLER, best_moves_down, IDFL),
        Statement("6a", f'S=1: "{R5_HIGH}".', slow_links_worse_in_slots, TRADEOFF),
        _any_time("6b", f'S=1: "{R5_LOW}".', slow_links_better_in_rounds, TRADEOFF),
    ),
    "cifar10": (
        *BOTH_DATA_SETS,
        _lowest("5a", 'async: "S=5 shows the minimum loss for CIFAR10 dataset".', 5),
        _lowest("5b", f"{MOVES}: from S=10 for async.", 10),
        _lowest("5c", f"{MOVES}: to S=5 for idfl.", 5, "idfl"),
    ),
}
