"""The text of a recommendation, on findings without training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slotwise.costs import Powers
from slotwise.learning import Point
from slotwise.recommendation.answer import Finding, Question, Recommendation
from slotwise.recommendation.candidates import Candidate
from slotwise.recommendation.halving import Score, halve
from slotwise.recommendation.metric import Metric, Reading, Target
from slotwise.recommendation.summary import headings, row, sentences
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
) -> Recommendation:
    """Earlier candidates are better; all but the first diverge from a given rung on."""
    question = Question(RunConfig.from_options(CASE), sizes, (0,), metric)
    field, extent = question.prepare()
    readings: dict[tuple[Candidate, int], tuple[Reading, ...]] = {}

    def measure(rung: int, alive: Sequence[Candidate]) -> Mapping[Candidate, Score | None]:
        losses = {candidate: float(field.running.index(candidate)) for candidate in alive}
        for candidate, loss in losses.items():
            readings[candidate, rung] = (Reading((loss,), (0.5,), joules),)
        return {c: None if loss and rung >= diverging_from else (loss,) for c, loss in losses.items()}

    rungs = halve(extent.rungs, field.running, measure)
    first = Point(slot=0, round=0, loss=first_loss, accuracy=0.1, staleness=0)
    curves = dict.fromkeys(field.running, ((first,),))
    return Recommendation(Finding(question, field, extent, rungs, readings, curves, 1, 10), Path("out"))


@pytest.mark.parametrize(
    ("sizes", "diverging_from", "expected"),
    [
        ((6,), 99, "the only candidate left"),
        ((1, 2, 3, 6), 1, "the only candidate left; of the others, 6 diverged"),
        ((1, 2, 3, 6), 2, "the only candidate left; of the others, 3 diverged, 3 were eliminated before"),
        ((1, 2, 3, 6), 99, "better in 1 of 1 seeds"),
    ],
    ids=["single", "all-diverge", "some-diverge", "none-diverges"],
)
def test_an_answer_says_what_became_of_the_others(
    sizes: tuple[int, ...], diverging_from: int, expected: str
) -> None:
    assert expected in "\n".join(sentences(answer(sizes, diverging_from)))


def test_the_table_marks_the_best_the_runner_up_and_the_diverged() -> None:
    found = answer((1, 2, 3, 6), 99)
    rows = [row(found, standing) for standing in found.standings]
    assert {len(cells) for cells in rows} == {len(headings(found))}
    assert [cells[-1] for cells in rows][:3] == ["best", "runner-up", ""]
    diverged = answer((1, 2, 3, 6), 1)
    assert row(diverged, diverged.standings[-1])[-1] == "diverged"


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
def test_a_question_that_does_not_discriminate_is_cautioned(options: dict[str, Any], said: str) -> None:
    found = answer((1, 2, 3, 6), 99, **options)
    assert found.cautions[0].startswith(said)
    assert found.as_dict()["cautions"] == list(found.cautions)


def test_an_answer_among_few_that_are_seen_to_the_end_needs_no_caution() -> None:
    assert answer((6,), 99).cautions == ()
