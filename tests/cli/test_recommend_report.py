"""What is said of an answer, on findings that nobody has trained for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slotwise.cli.recommend_report import print_answer
from slotwise.costs import Powers
from slotwise.learning import Point
from slotwise.recommendation.answer import Answer
from slotwise.recommendation.candidates import Candidate
from slotwise.recommendation.halving import Score, halve
from slotwise.recommendation.metric import Metric, Reading, Target
from slotwise.recommendation.question import Question
from slotwise.recommendation.search import Finding, prepared
from slotwise.runs import RunConfig

LOSS = Metric()
JOULES = Metric(
    "joules-to-target", Target("accuracy", 0.9), Powers(computing=2.0, sending=1.0, receiving=0.5)
)
CASE = {"devices": 6, "group_size": 1, "compute_slots": 4, "deadline": 320, "local_steps": 1}


def answer(
    sizes: tuple[int, ...],
    diverging_from: int,
    metric: Metric = LOSS,
    joules: float | None = None,
    first_loss: float = 2.3,
) -> Answer:
    """Earlier candidates are better; all but the first diverge on rungs from the one that is said."""
    question = Question(RunConfig.from_options(CASE), sizes, (0,), metric)
    field, extent = prepared(question)
    readings: dict[tuple[Candidate, int], tuple[Reading, ...]] = {}

    def measure(rung: int, alive: Sequence[Candidate]) -> Mapping[Candidate, Score | None]:
        losses = {candidate: float(field.running.index(candidate)) for candidate in alive}
        for candidate, loss in losses.items():
            readings[candidate, rung] = (Reading((loss,), (0.5,), joules),)
        return {c: None if loss and rung >= diverging_from else (loss,) for c, loss in losses.items()}

    rungs = halve(extent.rungs, field.running, measure)
    first = Point(slot=0, round=0, loss=first_loss, accuracy=0.1, staleness=0)
    curves = dict.fromkeys(field.running, ((first,),))
    return Answer(Finding(question, field, extent, rungs, readings, curves, 1, 10), Path("out"))


@pytest.mark.parametrize(
    ("sizes", "diverging_from", "said"),
    [
        ((6,), 99, "the only candidate left\n"),
        ((1, 2, 3, 6), 1, "the only candidate left; of the others: 6 diverged\n"),
        ((1, 2, 3, 6), 2, "the only candidate left; of the others: 3 diverged, 3 out by rank before\n"),
        ((1, 2, 3, 6), 99, "better in 1 of 1 seeds"),
    ],
)
def test_who_is_left_alone_is_told_what_became_of_the_others(
    sizes: tuple[int, ...], diverging_from: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_answer(answer(sizes, diverging_from), as_json=False)
    assert said in capsys.readouterr().out


def test_an_answer_says_when_others_were_out_because_curves_cross() -> None:
    (caution,) = answer((1, 2, 3, 6), 99).cautions
    assert "were out at slot" in caution
    assert "of 320; curves may cross later" in caution


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": JOULES}, "no candidate has met accuracy=0.9 with all seeds by slot"),
        ({"metric": JOULES, "joules": 0.0}, "the first model meets accuracy=0.9 already"),
        ({"first_loss": -1.0}, "even the best is worse than the first model (-1.0000): nothing was learned"),
    ],
)
def test_a_question_that_tells_nobody_apart_is_said_to_be_one(options: dict[str, Any], said: str) -> None:
    found = answer((1, 2, 3, 6), 99, **options)
    assert found.cautions[0].startswith(said)
    assert found.as_dict()["cautions"] == list(found.cautions)


def test_an_answer_among_few_that_are_seen_to_the_end_needs_no_caution() -> None:
    assert answer((6,), 99).cautions == ()
