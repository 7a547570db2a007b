"""What is said of an answer, on findings that nobody has trained for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from slotwise.cli.recommend_report import print_answer
from slotwise.recommend.answer import Answer
from slotwise.recommend.candidates import Candidate
from slotwise.recommend.halving import Score, halve
from slotwise.recommend.metric import Reading
from slotwise.recommend.question import Question
from slotwise.recommend.search import Finding, prepared
from slotwise.runs import run_parameters

CASE = {"devices": 6, "group_size": 1, "compute_slots": 4, "deadline": 320, "local_steps": 1}


def answer(sizes: tuple[int, ...], diverging_from: int) -> Answer:
    """Earlier candidates are better; all but the first diverge on rungs from the one that is said."""
    question = Question(run_parameters(CASE), sizes, (0,))
    field, extent = prepared(question)
    readings: dict[tuple[Candidate, int], tuple[Reading, ...]] = {}

    def measure(rung: int, alive: Sequence[Candidate]) -> Mapping[Candidate, Score | None]:
        losses = {candidate: float(field.running.index(candidate)) for candidate in alive}
        for candidate, loss in losses.items():
            readings[candidate, rung] = (Reading((loss,), (0.5,)),)
        return {c: None if loss and rung >= diverging_from else (loss,) for c, loss in losses.items()}

    rungs = halve(extent.rungs, field.running, measure)
    return Answer(Finding(question, field, extent, rungs, readings, {}, 1, 10), Path("out"))


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
