"""The paper's statements in its own words, and the verdicts on them.

Each has a rule of `rules`, whose docstring, with the parameters of the statement filled in, is its text in
the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slotwise.data import TITLES
from slotwise.paper.criteria import Truth
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.rules import (
    RUNS,
    Finding,
    best_moves_down,
    calmer_accuracy,
    calmer_loss,
    faster_by_rounds,
    faster_than_all_devices,
    faster_than_sync,
    highest_at_100,
    lowest_loss,
    most_at_small_groups,
    mostly_below_async,
    mostly_faster_than_async,
    one_falls_below_hundred,
    same_at_all_devices,
    slow_links_better_in_rounds,
    slow_links_worse_in_slots,
)
from slotwise.schedule import Schedule

Verdict = Literal["held", "not held", "not decided"]
VERDICTS: dict[Truth, Verdict] = {True: "held", False: "not held", None: "not decided"}
TOO_SHORT = "the deadline is shorter than the paper's, and the statement is about the end"

ASYNC, IDFL, COMPARISON = "Performance of asynchronous FL", "Performance of IDFL", "Comparison"
TRADEOFF = "Tradeoff at S=1"


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
EFFICIENCY = 'async "enhances time efficiency" (abstract) against synchronous FL'
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
AGAINST_SYNC = (
    _any_time("7a", f"{EFFICIENCY} of all devices.", faster_than_all_devices),
    _any_time("7b", f"{EFFICIENCY} with as many devices a round.", faster_than_sync),
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
        *AGAINST_SYNC,
    ),
    "cifar10": (
        *BOTH_DATA_SETS,
        _lowest("5a", 'async: "S=5 shows the minimum loss for CIFAR10 dataset".', 5),
        _lowest("5b", f"{MOVES}: from S=10 for async.", 10),
        _lowest("5c", f"{MOVES}: to S=5 for idfl.", 5, "idfl"),
        *AGAINST_SYNC,
    ),
}
