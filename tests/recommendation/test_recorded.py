"""The rule on curves that were trained to the end: the paper's MNIST case, seed 0."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from slotwise.learning import Point
from slotwise.recommendation.answer import Question
from slotwise.recommendation.candidates import Candidate, rung_slot
from slotwise.recommendation.halving import Score, halve
from slotwise.recommendation.metric import Metric
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import final_loss

from .conftest import most_steps_of

RUNS = Path(__file__).parents[2] / "docs" / "results" / "paper" / "runs"
SIZES = (1, 5, 10, 25, 50, 100)
RECORDED_AS = {"sync-S100": "async-S100"}  # the same run


@pytest.fixture(scope="module")
def question() -> Question:
    return Question(RunConfig(), SIZES, (0,))


@pytest.fixture(scope="module")
def curves(question: Question) -> dict[Candidate, list[Point]]:
    """The candidates that the plan leaves and that were recorded; of sync, only all devices at once were."""
    found = {}
    for candidate in question.prepare()[0].running:
        name = RECORDED_AS.get(candidate.name, candidate.name)
        folder = RunFolder(RUNS / f"mnist-{name}-T50000-seed0")
        if folder.is_run:
            found[candidate] = folder.points()
    return found


def test_the_recorded_winner_is_found(question: Question, curves: dict[Candidate, list[Point]]) -> None:
    deadline, metric = question.base.deadline, Metric()

    def measure(sixteenths: int, alive: Sequence[Candidate]) -> Mapping[Candidate, Score | None]:
        slot = rung_slot(deadline, sixteenths)
        beginnings = {c: [point for point in curves[c] if point.slot <= slot] for c in alive}
        return {c: metric.score([metric.read(question.base, beginnings[c], slot)]) for c in alive}

    _, extent = question.prepare()
    found = halve(extent.rungs, list(curves), measure)
    best = min(curves, key=lambda candidate: final_loss(curves[candidate], deadline))
    assert len(curves) == 6
    assert found[-1].kept == (best,)


def test_the_search_of_the_paper_s_case_costs_less_than_a_quarter_at_worst(question: Question) -> None:
    field, extent = question.prepare()
    assert extent.rungs == (2, 4, 8, 9)
    steps = question.base.training.local_steps
    assert most_steps_of(field, extent, steps) <= extent.limit
    assert most_steps_of(field, extent, steps) < steps * field.grid_updates[0] / 4
