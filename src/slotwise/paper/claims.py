"""The paper's six claims, each judged by rules written down before the runs they judge were looked at.

Every statement of a claim is judged on each seed by itself. It is held if it holds on every seed, not held if
it fails on every seed, and not decided where seeds disagree, where figures tie, or where a run it needs is
missing, unfinished or diverged. A claim is held if all its statements are, not held if one of them is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from slotwise.paper import rules
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.judgement import Truth, every

Verdict = Literal["held", "not held", "not decided"]
Rule = Callable[[Evidence], rules.Finding]


@dataclass(frozen=True)
class Part:
    """One statement of a claim: how it is judged, what came out, and the figures behind it."""

    rule: str
    truth: Truth
    figures: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """A claim and what became of it."""

    number: int
    data: str
    claim: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> Verdict:
        """All parts together."""
        return in_words(every(part.truth for part in self.parts))


def in_words(truth: Truth) -> Verdict:
    """A truth as a verdict."""
    return "not decided" if truth is None else "held" if truth else "not held"


def judge_mnist(evidence: Evidence) -> tuple[Judgement, ...]:
    """The claims about MNIST."""
    return (
        _judge(
            evidence,
            1,
            "async: S=50 has the lowest final loss of all S, and S=100 is clearly worse than S=50.",
            rules.lowest_at_50,
            rules.hundred_clearly_worse,
        ),
        *_judge_both(evidence),
        _judge(
            evidence,
            4,
            "idfl: the best S moves down (the paper: from 50 to 10), and S=1 ends below S=100.",
            rules.best_moves_down,
            rules.one_below_hundred,
        ),
        _judge(
            evidence,
            6,
            "S=1: r=5 is worse than r=1 against slots, but can be better against rounds.",
            rules.slow_links_worse_in_slots,
            rules.slow_links_better_in_rounds,
        ),
    )


def judge_cifar10(evidence: Evidence) -> tuple[Judgement, ...]:
    """The claims about CIFAR-10."""
    return (
        *_judge_both(evidence),
        _judge(
            evidence,
            5,
            "async: the best S is 5 in one sentence and 10 in another; idfl: 5.",
            rules.cifar10_async_best,
            rules.cifar10_idfl_best,
        ),
    )


def _judge_both(evidence: Evidence) -> tuple[Judgement, ...]:
    """The claims about either data set."""
    return (
        _judge(evidence, 2, "async: curves fluctuate less as S grows.", rules.calmer_as_groups_grow),
        _judge(
            evidence,
            3,
            "idfl is below async at every S < N, most at small S; at S = N they are the same.",
            rules.below_async,
            rules.most_at_small_groups,
            rules.same_at_all_devices,
        ),
    )


def _judge(evidence: Evidence, number: int, claim: str, *statements: Rule) -> Judgement:
    data = {"mnist": "MNIST", "cifar10": "CIFAR-10"}[evidence.base.dataset.data]
    return Judgement(number, data, claim, tuple(_part(evidence, rule) for rule in statements))


def _part(evidence: Evidence, rule: Rule) -> Part:
    """The rule's words are its docstring, so that code and page cannot say different things."""
    words = " ".join((rule.__doc__ or "").split())
    try:
        truth, figures = rule(evidence)
    except Missing as missing:
        truth, figures = None, (str(missing),)
    return Part(words, truth, tuple(figures))
