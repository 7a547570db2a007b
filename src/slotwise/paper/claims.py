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
    majority,
    mean_loss,
    mean_loss_over_rounds,
    some,
    ties,
    unanimous,
)
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH
from slotwise.paper.result_text import mean_text
from slotwise.schedule import Schedule

Verdict = Literal["held", "not held", "not decided"]
# Whether a statement holds, and the figures behind that: the first is short enough for a cell of a table.
Finding = tuple[Truth, Sequence[str]]
Rule = Callable[[Evidence], Finding]
BySize = Mapping[int, float]
Value = TypeVar("Value")
VERDICTS: dict[Truth, Verdict] = {True: "held", False: "not held", None: "not decided"}
BELOW = {True: "below", False: "not below", None: "not decided"}
NO_SLOW_LINKS = "there are no runs with slow links"
TOO_SHORT = "the deadline is shorter than the paper's, and the statement is about the end"


ASYNC, IDFL, COMPARISON = "Performance of asynchronous FL", "Performance of IDFL", "Comparison"
TRADEOFF = "Tradeoff at S=1"


class Statement(NamedTuple):
    """A statement of the paper."""

    name: str  # the number of the claim it belongs to, and a letter
    text: str  # the paper's words in quotation marks
    rule: Rule
    about_the_end: bool = True  # open if the deadline is shorter than the paper's
    figure: str = ASYNC  # the paper's figure it is about


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
            truth, figures = None, ("not trained yet", str(missing))
        if statement.about_the_end and not evidence.reaches_the_end:
            truth, figures = None, (*figures, TOO_SHORT)
        judgements.append(Judgement(statement, TITLES[data], truth, tuple(figures)))
    return tuple(judgements)


def fastest_at_50(evidence: Evidence) -> Finding:
    """S=50 has the lowest mean loss of the asynchronous runs that did not collapse."""
    speeds = _by_seed(
        evidence, lambda size: evidence.unless_collapsed(evidence.curves("async", size), mean_loss)
    )
    truth = unanimous(is_lowest(losses, 50) for losses in speeds)
    return truth, [f"lowest at S={_best_text(speeds)}", _sizes_text("mean loss, async", speeds)]


def lowest_at_50(evidence: Evidence) -> Finding:
    """S=50 has the lowest final loss of the asynchronous runs that did not collapse."""
    return _lowest_at(evidence, "async", 50)


def highest_at_100(evidence: Evidence) -> Finding:
    """The final loss of async S=100 is above that of every other S."""
    finals = evidence.finals("async")
    others = [size for size in evidence.group_sizes if size != 100]
    truth = unanimous(every(below(losses[size], losses[100]) for size in others) for losses in finals)
    # The lowest of the negative losses is the highest loss.
    highest = _best_text([{size: -loss for size, loss in losses.items()} for losses in finals])
    return truth, [f"highest at S={highest}", _sizes_text("async", finals)]


def calmer_loss(evidence: Evidence) -> Finding:
    """The fluctuation of the loss of the asynchronous runs falls with S.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest. Collapsed runs
    are left out.
    """
    return _calmer(evidence, accuracy=False)


def calmer_accuracy(evidence: Evidence) -> Finding:
    """The fluctuation of the test accuracy of the asynchronous runs falls with S, by the same rule."""
    return _calmer(evidence, accuracy=True)


def faster_by_rounds(evidence: Evidence) -> Finding:
    """The mean loss over the rounds that the largest S completes falls with S, for the asynchronous runs.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest. Runs that
    collapse, even later, are left out. Small S are evaluated only a few times within these rounds; the loss
    is linear in between.
    """
    # The fewest of all seeds: every curve of the largest S reaches so many.
    rounds = min(curve.points[-1].round for curve in evidence.curves("async", evidence.group_sizes[-1]))
    tables = _by_seed(
        evidence,
        lambda size: evidence.unless_collapsed(
            evidence.curves("async", size), lambda points: mean_loss_over_rounds(points, rounds)
        ),
    )
    known = [[loss for loss in table.values() if not isnan(loss)] for table in tables]
    # Two group sizes that did not collapse are no trend.
    truth = unanimous(falls(losses) if len(losses) > 2 else None for losses in known)
    return truth, [_ends_text(tables), _sizes_text(f"mean loss over {rounds:,} rounds, async", tables)]


def mostly_below_async(evidence: Evidence) -> Finding:
    """At more than half of the S that leave room for a free delay, idfl ends with a lower loss than async.

    Where the free delay is 0 the two are one run and say nothing.
    """
    delayed = evidence.delayed_sizes()
    pairs = [(evidence.final("idfl", size), evidence.final("async", size)) for size in delayed]
    by_seed = [[below(a[i], b[i]) for a, b in pairs] for i in range(len(evidence.seeds))]
    figures = [f"below at {_counts_text(by_seed)}"]
    figures += [idfl_against_async(evidence, size)[1] for size in delayed]
    same = [str(size) for size in evidence.group_sizes if size not in delayed]
    if same:
        figures.append(f"no delay is free at S={', '.join(same)}: one run for both")
    return unanimous(map(majority, by_seed)), figures


def mostly_faster_than_async(evidence: Evidence) -> Finding:
    """At more than half of the S that leave room for a free delay, idfl has a lower mean loss than async."""
    by_size, figures = [], []
    for size in evidence.delayed_sizes():
        speeds = [
            evidence.unless_collapsed(evidence.curves(schedule, size), mean_loss)
            for schedule in ("idfl", "async")
        ]
        by_size.append([below(a, b) for a, b in zip(*speeds, strict=True)])
        figures.append(f"mean loss at S={size}: idfl {mean_text(speeds[0])}, async {mean_text(speeds[1])}")
    by_seed = list(zip(*by_size, strict=True))
    if not by_seed:
        return None, ["needs a group size with a delay"]
    return unanimous(map(majority, by_seed)), [f"below at {_counts_text(by_seed)}", *figures]


def idfl_against_async(evidence: Evidence, size: int) -> tuple[Truth, str]:
    """Return whether idfl ends below async at one group size, and the figures in a sentence."""
    without, with_delay = evidence.final("async", size), evidence.final("idfl", size)
    truth = _on_all_seeds(below, with_delay, without)
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
    return same, [
        "equal" if same else "different",
        f"device, model and slots of all {len(one):,} uplinks: {'equal' if same else 'different'}",
    ]


def one_falls_below_hundred(evidence: Evidence) -> Finding:
    """S=1 ends above S=100 without intentional delay, and below it with."""
    before, after = evidence.final("async", 1), evidence.final("idfl", 1)
    # S=100 is all devices, for which async and idfl are the same run.
    hundred = evidence.final("async", 100)
    truth = unanimous(
        every((below(h, b), below(a, h))) for b, a, h in zip(before, after, hundred, strict=True)
    )
    return truth, [f"S=100 {mean_text(hundred)}; S=1: async {mean_text(before)}, idfl {mean_text(after)}"]


def idfl_lowest_at_10(evidence: Evidence) -> Finding:
    """S=10 has the lowest final loss of the runs with intentional delay that did not collapse."""
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
    """S=5 has the lowest final loss of the asynchronous runs that did not collapse."""
    return _lowest_at(evidence, "async", 5)


def cifar10_async_best_10(evidence: Evidence) -> Finding:
    """S=10 has the lowest final loss of the asynchronous runs that did not collapse."""
    return _lowest_at(evidence, "async", 10)


def cifar10_idfl_best_5(evidence: Evidence) -> Finding:
    """S=5 has the lowest final loss of the runs with intentional delay that did not collapse."""
    return _lowest_at(evidence, "idfl", 5)


def slow_links_worse_in_slots(evidence: Evidence) -> Finding:
    """At S=1 the final loss with r=5 is above that with r=1, for every compute time and both schedules."""
    found, figures = [], []
    for compute, link in evidence.slow_links:
        for schedule in BOTH:
            fast = evidence.final(schedule, 1, (compute, 1))
            slow = evidence.final(schedule, 1, (compute, link))
            found.append([below(a, b) for a, b in zip(fast, slow, strict=True)])
            losses = f"r=1 {mean_text(fast)}, r={link} {mean_text(slow)}"
            figures.append(f"{schedule}, {compute} compute slots: {losses}")
    return _of_slow_links(every, found, figures, "above")


def slow_links_better_in_rounds(evidence: Evidence) -> Finding:
    """For at least one compute time, idfl with r=5 has the lower loss over the same rounds."""
    found, figures = [], []
    for compute, link in evidence.slow_links:
        fast, slow = (evidence.curves("idfl", 1, (compute, slots)) for slots in (1, link))
        pairs = [
            tuple(
                nan if evidence.has_collapsed(curve) else loss
                for curve, loss in zip(both, losses_over_same_rounds(*(c.points for c in both)), strict=True)
            )
            for both in zip(fast, slow, strict=True)
        ]
        found.append([below(b, a) for a, b in pairs])
        losses = f"r=1 {mean_text([a for a, _ in pairs])}, r={link} {mean_text([b for _, b in pairs])}"
        rounds = max(curve.points[-1].round for curve in slow)
        figures.append(f"idfl, {compute} compute slots, up to round {rounds:,}: {losses}")
    return _of_slow_links(some, found, figures, "below")


def _of_slow_links(
    combine: Callable[[Iterable[Truth]], Truth],
    found: Sequence[Sequence[Truth]],
    figures: Sequence[str],
    where: str,
) -> Finding:
    """Combine the truths about slow links seed by seed; ``found`` has a row for each comparison."""
    if not found:
        return None, [NO_SLOW_LINKS]
    # A statement is judged on each seed by itself, so the table is turned.
    by_seed = list(zip(*found, strict=True))
    short = f"r=5 {where} r=1 at {_counts_text(by_seed)}"
    return unanimous(map(combine, by_seed)), [short, *figures]


def _calmer(evidence: Evidence, *, accuracy: bool) -> Finding:
    deadline = evidence.base.deadline
    truths, columns = [], _by_seed(evidence, lambda size: evidence.curves("async", size))
    tables: list[dict[int, float]] = []
    for curves in columns:
        kept = {size: curve for size, curve in curves.items() if not evidence.has_collapsed(curve)}
        table = {size: fluctuation(one.points, deadline, accuracy=accuracy) for size, one in kept.items()}
        tables.append(table)
        enough = len(table) > 2 and not any(map(isnan, table.values()))
        truths.append(falls(list(table.values())) if enough else None)
    # Collapsed sizes are left out of the trend and shown in the figures.
    whole = [{size: table.get(size, nan) for size in evidence.group_sizes} for table in tables]
    title = f"fluctuation of the {'accuracy' if accuracy else 'loss'}"
    figures = [_ends_text(whole), _sizes_text(title, whole)]
    return unanimous(truths), figures


def _lowest_at(evidence: Evidence, schedule: Schedule, size: int) -> Finding:
    finals = evidence.finals(schedule)
    truth = unanimous(is_lowest(losses, size) for losses in finals)
    return truth, [f"lowest at S={_best_text(finals)}", _sizes_text(schedule, finals)]


def _by_seed(evidence: Evidence, column: Callable[[int], Sequence[Value]]) -> list[dict[int, Value]]:
    """Return a table by group size for each seed; ``column`` gives the values of one size, seed by seed."""
    columns = {size: column(size) for size in evidence.group_sizes}
    return [{size: values[i] for size, values in columns.items()} for i in range(len(evidence.seeds))]


def _on_all_seeds(compare: Callable[..., Truth], one: Iterable[float], other: Iterable[float]) -> Truth:
    return unanimous(compare(a, b) for a, b in zip(one, other, strict=True))


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


MOVES = '"the optimal S changes from S=10 to S=5 due to the intentional delay"'
EITHER = (
    Statement(
        "1d",
        'async: "with respect to training rounds, it is clearly seen that large S shows rapid decreasing".',
        faster_by_rounds,
        about_the_end=False,
    ),
    Statement(
        "2a",
        'async: "as S increases, the global loss … is less fluctuated".',
        calmer_loss,
        about_the_end=False,
    ),
    Statement(
        "2b",
        'async: "as S increases, the … test accuracy is less fluctuated".',
        calmer_accuracy,
        about_the_end=False,
    ),
    Statement(
        "3a", 'idfl achieves "relatively low global loss" against async.', mostly_below_async, figure=IDFL
    ),
    Statement("3b", 'The reduction by idfl "is large for small S".', most_at_small_groups, figure=COMPARISON),
    Statement(
        "3c", "At S = N async and idfl are identical.", same_at_all_devices, about_the_end=False, figure=IDFL
    ),
    Statement(
        "3d",
        'idfl "can rapidly reduce global loss" (abstract).',
        mostly_faster_than_async,
        about_the_end=False,
        figure=COMPARISON,
    ),
)
STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "mnist": (
        Statement(
            "1a",
            'async: the loss "is reduced most rapidly with S=50".',
            fastest_at_50,
            about_the_end=False,
        ),
        Statement("1b", 'async: "S=50 achieves the lowest global loss".', lowest_at_50),
        Statement("1c", 'async: S=100 "is relatively high compared with other S".', highest_at_100),
        *EITHER,
        Statement(
            "4a",
            'idfl: the loss "with S=1 becomes lower than that with S=100 after applying intentional delay".',
            one_falls_below_hundred,
            figure=IDFL,
        ),
        Statement(
            "4b",
            'idfl: "the minimum global loss is achieved with S=10 when intentional delay is applied".',
            idfl_lowest_at_10,
            figure=IDFL,
        ),
        Statement(
            "4c",
            'idfl: "we can use a relatively smaller TDMA group size" (10 instead of 50).',
            best_moves_down,
            figure=IDFL,
        ),
        Statement(
            "6a",
            'S=1: "global loss for r=5 is relatively high compared with that of r=1".',
            slow_links_worse_in_slots,
            figure=TRADEOFF,
        ),
        Statement(
            "6b",
            'S=1: "global loss of r=5 with respect to training round can be lower than that of r=1".',
            slow_links_better_in_rounds,
            about_the_end=False,
            figure=TRADEOFF,
        ),
    ),
    "cifar10": (
        *EITHER,
        Statement("5a", 'async: "S=5 shows the minimum loss for CIFAR10 dataset".', cifar10_async_best_5),
        Statement("5b", f"{MOVES}: from S=10 for async.", cifar10_async_best_10),
        Statement("5c", f"{MOVES}: to S=5 for idfl.", cifar10_idfl_best_5, figure=IDFL),
    ),
}
