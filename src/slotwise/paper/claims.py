"""The paper's six claims, and the rules by which they are judged: one function for each statement of a claim.

The docstring of a rule is its text in the report. The rules were written before the runs they judge were
looked at. Each returns whether the statement holds (None if the figures leave it open) and the figures behind
it. The definitions of final loss, fluctuation, tie, "clearly" and verdict are in `criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slotwise.data import TITLES
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
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH
from slotwise.schedule import Schedule

Verdict = Literal["held", "not held", "not decided"]
Finding = tuple[Truth, Sequence[str]]
Rule = Callable[[Evidence], Finding]
VERDICTS: dict[Truth, Verdict] = {True: "held", False: "not held", None: "not decided"}
BELOW = {True: "below", False: "not below", None: "not decided"}


@dataclass(frozen=True)
class Part:
    """One statement of a claim: its rule, whether it holds, and the figures behind it."""

    rule: str
    truth: Truth
    figures: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """A claim and the verdict on each of its statements."""

    number: int
    data: str
    claim: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on all statements together."""
        return VERDICTS[every(part.truth for part in self.parts)]


def judge(evidence: Evidence) -> tuple[Judgement, ...]:
    """Judge every claim about the data set of the evidence."""
    data, judgements = evidence.base.dataset.data, []
    for number, claim, statements in CLAIMS[data]:
        parts = []
        for rule in statements:
            try:
                truth, figures = rule(evidence)
            except Missing as missing:
                truth, figures = None, (str(missing),)
            # The text of a rule is its docstring, so that the code and the report cannot differ.
            parts.append(Part(" ".join((rule.__doc__ or "").split()), truth, tuple(figures)))
        judgements.append(Judgement(number, TITLES[data], claim, tuple(parts)))
    return tuple(judgements)


def lowest_at_50(evidence: Evidence) -> Finding:
    """S=50 has the lowest final loss of the asynchronous runs."""
    finals = evidence.finals("async")
    return _best_is(finals, (50,)), [_sizes_text("async", finals)]


def hundred_clearly_worse(evidence: Evidence) -> Finding:
    """The final loss of async S=100 is at least 10 % above that of S=50."""
    hundred, fifty = evidence.final("async", 100), evidence.final("async", 50)
    change = f"{np.mean(hundred) / np.mean(fifty) - 1:+.1%}"
    figures = f"S=100 {mean_text(hundred)}, S=50 {mean_text(fifty)}: {change}"
    return _on_all_seeds(clearly_above, hundred, fifty), [figures]


def calmer_as_groups_grow(evidence: Evidence) -> Finding:
    """The fluctuation of the asynchronous curves falls with S.

    No S is more than 10 % above the next smaller S, and the largest S is below the smallest.
    """
    columns = {
        size: [fluctuation(curve.points, evidence.base.deadline) for curve in evidence.curves("async", size)]
        for size in evidence.group_sizes
    }
    if np.isnan(list(columns.values())).any():
        return None, ["too few evaluations in the second half"]
    truth = unanimous(falls(values) for values in zip(*columns.values(), strict=True))
    figures = (f"S={size} {np.mean(values):.3f}" for size, values in columns.items())
    return truth, ["fluctuation " + ", ".join(figures)]


def below_async(evidence: Evidence) -> Finding:
    """At every S that leaves room for a free delay, the final loss of idfl is below that of async.

    Where the free delay is 0 the two are one run and say nothing.
    """
    delayed = evidence.delayed_sizes()
    found = [idfl_against_async(evidence, size) for size in delayed]
    figures = [sentence for _, sentence in found]
    same = [str(size) for size in evidence.group_sizes if size not in delayed]
    if same:
        figures.append(f"no delay is free at S={', '.join(same)}: one run for both")
    return every(truth for truth, _ in found) if found else None, figures


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
    truth = unanimous(small > large for small, large in zip(*gains, strict=True))
    return truth, [f"gain at {names[0]}: {mean_text(gains[0])}; at {names[1]}: {mean_text(gains[1])}"]


def same_at_all_devices(evidence: Evidence) -> Finding:
    """At S = N both schedules give the same timeline, and so the same run."""
    everyone = evidence.base.with_options(group_size=evidence.base.channel.devices)
    one, other = (everyone.with_options(schedule=schedule).simulate() for schedule in BOTH)
    columns = ("device", "version", "start", "end", "broadcast_end")
    same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
    return same, [f"device, model and slots of all {len(one):,} uplinks: {'equal' if same else 'different'}"]


def best_moves_down(evidence: Evidence) -> Finding:
    """The S with the lowest final loss is smaller for idfl than for async."""
    without, with_delay = evidence.finals("async"), evidence.finals("idfl")
    pairs = [(lowest(a), lowest(b)) for a, b in zip(without, with_delay, strict=True)]
    # None if it depends on a tie.
    truth = unanimous(
        True if max(after) < min(before) else False if min(after) >= max(before) else None
        for before, after in pairs
    )
    found = f"best S: async {_best_text(without)} (paper: 50), idfl {_best_text(with_delay)} (paper: 10)"
    return truth, [found, _sizes_text("async", without), _sizes_text("idfl", with_delay)]


def one_below_hundred(evidence: Evidence) -> Finding:
    """The final loss of idfl S=1 is below that of S=100."""
    one, hundred = evidence.final("idfl", 1), evidence.final("idfl", 100)
    return _on_all_seeds(below, one, hundred), [f"S=1 {mean_text(one)}, S=100 {mean_text(hundred)}"]


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
        losses = f"r=1 {mean_text([a for a, _ in pairs])}, r={link} {mean_text([b for _, b in pairs])}"
        rounds = f"up to round {slow[0].points[-1].round:,}"
        figures.append(f"idfl, {compute} compute slots, {rounds}: {losses}")
    return some(truths) if truths else None, figures


def _on_all_seeds(compare: Callable[..., Truth], one: Iterable[float], other: Iterable[float]) -> Truth:
    return unanimous(compare(a, b) for a, b in zip(one, other, strict=True))


def _best_is(finals: Sequence[dict[int, float]], allowed: tuple[int, ...]) -> Truth:
    """Return whether the best S is one of ``allowed`` on all seeds; None if that depends on a tie."""
    return unanimous(unanimous(size in allowed for size in lowest(losses)) for losses in finals)


def _best_among(evidence: Evidence, schedule: Schedule, allowed: tuple[int, ...]) -> Finding:
    finals = evidence.finals(schedule)
    return _best_is(finals, allowed), [f"best S: {_best_text(finals)}", _sizes_text(schedule, finals)]


def mean_text(values: Sequence[float]) -> str:
    """Return the mean over the seeds as text, with four digits or as a whole number."""
    mean = float(np.mean(values))
    return f"{mean:.4g}" if abs(mean) < 1000 else f"{mean:,.0f}"


def _best_text(finals: Sequence[dict[int, float]]) -> str:
    """Return the best group size of each seed as text, ties joined by a slash."""
    found = ["/".join(map(str, lowest(losses))) for losses in finals]
    return found[0] if len(set(found)) == 1 else ", ".join(found) + " (by seed)"


def _sizes_text(schedule: Schedule, finals: Sequence[dict[int, float]]) -> str:
    """Return the mean final loss of every group size as text."""
    parts = (f"S={size} {mean_text([losses[size] for losses in finals])}" for size in finals[0])
    return f"{schedule}: " + ", ".join(parts)


Claim = tuple[int, str, tuple[Rule, ...]]
"""The number of a claim, its text, and a rule for each of its statements."""

EITHER: tuple[Claim, ...] = (
    (2, "async: curves fluctuate less as S grows.", (calmer_as_groups_grow,)),
    (
        3,
        "idfl is below async at every S < N, most at small S; at S = N they are the same.",
        (below_async, most_at_small_groups, same_at_all_devices),
    ),
)
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "mnist": (
        (
            1,
            "async: S=50 has the lowest final loss of all S, and S=100 is clearly worse than S=50.",
            (lowest_at_50, hundred_clearly_worse),
        ),
        *EITHER,
        (
            4,
            "idfl: the best S moves down (the paper: from 50 to 10), and S=1 ends below S=100.",
            (best_moves_down, one_below_hundred),
        ),
        (
            6,
            "S=1: r=5 is worse than r=1 against slots, but can be better against rounds.",
            (slow_links_worse_in_slots, slow_links_better_in_rounds),
        ),
    ),
    "cifar10": (
        *EITHER,
        (
            5,
            "async: the best S is 5 in one sentence and 10 in another; idfl: 5.",
            (cifar10_async_best, cifar10_idfl_best),
        ),
    ),
}
