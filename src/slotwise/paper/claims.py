"""The paper's six claims, and where they are judged (`judge`).

Each statement of a claim has a rule in `rules`, written down before the runs it judges were looked at, and is
judged on each seed by itself. It is held if it holds on every seed, not held if
it fails on every seed, and not decided where seeds disagree, where figures tie, or where a run it needs is
missing, unfinished or diverged. A claim is held if all its statements are, not held if one of them is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from slotwise.paper import rules
from slotwise.paper.criteria import Truth, every
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import DATA_TITLES

Verdict = Literal["held", "not held", "not decided"]
Rule = Callable[[Evidence], rules.Finding]
Claim = tuple[int, str, tuple[Rule, ...]]
"""The number of a claim, its text, and a rule for each of its statements."""


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
        return verdict_of(every(part.truth for part in self.parts))


def verdict_of(truth: Truth) -> Verdict:
    """Return the verdict that a truth value stands for."""
    return "not decided" if truth is None else "held" if truth else "not held"


EITHER: tuple[Claim, ...] = (
    (2, "async: curves fluctuate less as S grows.", (rules.calmer_as_groups_grow,)),
    (
        3,
        "idfl is below async at every S < N, most at small S; at S = N they are the same.",
        (rules.below_async, rules.most_at_small_groups, rules.same_at_all_devices),
    ),
)
MNIST: tuple[Claim, ...] = (
    (
        1,
        "async: S=50 has the lowest final loss of all S, and S=100 is clearly worse than S=50.",
        (rules.lowest_at_50, rules.hundred_clearly_worse),
    ),
    *EITHER,
    (
        4,
        "idfl: the best S moves down (the paper: from 50 to 10), and S=1 ends below S=100.",
        (rules.best_moves_down, rules.one_below_hundred),
    ),
    (
        6,
        "S=1: r=5 is worse than r=1 against slots, but can be better against rounds.",
        (rules.slow_links_worse_in_slots, rules.slow_links_better_in_rounds),
    ),
)
CIFAR10: tuple[Claim, ...] = (
    *EITHER,
    (
        5,
        "async: the best S is 5 in one sentence and 10 in another; idfl: 5.",
        (rules.cifar10_async_best, rules.cifar10_idfl_best),
    ),
)
CLAIMS = {"mnist": MNIST, "cifar10": CIFAR10}


def judge(evidence: Evidence) -> tuple[Judgement, ...]:
    """Judge every claim about the data set of the evidence."""
    data = evidence.base.dataset.data
    return tuple(
        Judgement(number, DATA_TITLES[data], claim, tuple(_judge_statement(evidence, rule) for rule in parts))
        for number, claim, parts in CLAIMS[data]
    )


def _judge_statement(evidence: Evidence, rule: Rule) -> Part:
    # The text of a rule is its docstring, so that the code and the report cannot differ.
    text = " ".join((rule.__doc__ or "").split())
    try:
        truth, figures = rule(evidence)
    except Missing as missing:
        truth, figures = None, (str(missing),)
    return Part(text, truth, tuple(figures))
