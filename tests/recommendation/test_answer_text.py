"""The text of a recommendation, on curves without training."""

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from slotwise.learning import Point
from slotwise.recommendation import elimination
from slotwise.recommendation.answer import Recommendation
from slotwise.recommendation.answer_text import draw_pilots, headings, row, sentences
from slotwise.recommendation.candidates import Curve, Pilot
from slotwise.recommendation.elimination import Question, Search
from slotwise.recommendation.metric import Metric, Target
from slotwise.schedule.costs import Powers

Ask = Callable[..., Question]
JOULES = Metric(
    "joules-to-target", Target("accuracy", 0.9), Powers(computing=2.0, sending=1.0, receiving=0.5)
)


def answer(question: Question, levels: Sequence[float], first: float = 2.0) -> Recommendation:
    """Return the answer for curves that fall at once to a level each, in the order of the candidates."""
    order = [candidate.name for candidate in question.field.candidates]

    def train(pilots: Sequence[Pilot]) -> list[Curve]:
        return list(map(curve, pilots))

    def curve(pilot: Pilot) -> Curve:
        level = levels[order.index(pilot.run.name.rpartition("-")[0])]
        slots = range(0, pilot.slot + 1, 4)
        points = tuple(Point(slot, slot, level if slot else first, 1 / (1 + level), 0) for slot in slots)
        return Curve(pilot.run.config, pilot.slot, () if level == inf else points, diverged=level == inf)

    return Recommendation(Search(question, train).run(), Path("out"))


def text(found: Recommendation) -> str:
    return "\n".join(sentences(found))


def test_one_that_is_ahead_is_to_be_used(question: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "SMALL_GRID", 0)
    found = answer(question(sizes=(2, 3)), [1.0, 0.1, 1.0, 1.0])
    assert found.decided
    told = text(found)
    assert "use async with a group size of 2" in told
    assert "cannot tell" not in told
    assert f"{found.finding.search_steps:,} SGD steps, {found.share:.1%} of the whole grid" in told


def test_what_cannot_be_told_apart_is_a_set_marked_in_the_table(question: Ask) -> None:
    found = answer(question(sizes=(2, 3)), [1.0, 0.1, 1.0, 0.1])
    assert not found.decided
    assert "cannot tell which is best: async S=2 (0.1000), async S=3 (0.1000); with 2 seeds" in text(found)
    found = answer(question(sizes=(2, 3)), [1.0, 0.1, inf, 0.1])
    rows = [row(found, standing) for standing in found.standings]
    assert {len(cells) for cells in rows} == {len(headings(found))}
    assert [cells[-1] for cells in rows] == ["best", "may be best", "", "diverged"]
    assert answer(question(sizes=(2, 3)), [1.0, 0.1, 1.0, 1.0]).cautions == ()
    found = answer(question(sizes=(6,)), [1.0])
    assert found.cautions == ()
    assert "it is the only candidate" in text(found)
    assert found.resume_command is not None


def test_the_table_shows_the_extrapolation_of_those_that_were_dropped(
    question: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elimination, "SMALL_GRID", 0)
    found = answer(question(sizes=(2, 3)), [1.0, 0.1, 1.0, 1.0])
    cells = {standing.candidate.label: row(found, standing)[5:8] for standing in found.standings}
    assert cells["async S=2"] == ("0.1000", "320", "–")
    assert cells["sync S=3"][0] == cells["sync S=3"][2] == "1.0000"


@pytest.mark.parametrize(
    ("options", "levels", "first", "said"),
    [
        ({"metric": JOULES}, [1.0, 0.5, 1.0, 1.0], 2.0, "no candidate has met accuracy=0.9 with all seeds"),
        ({"metric": JOULES}, [0.1, 0.1, 0.1, 0.1], 2.0, "the first model meets accuracy=0.9 already"),
        ({}, [3.0, 2.5, 3.0, 3.0], 2.0, "even the best is worse than the first model (2.0000)"),
        ({"seeds": (0,)}, [1.0, 0.1, 1.0, 1.0], 2.0, "judged with seed 0 only"),
        ({"budget": 200}, [1.0, 1.0, 1.0, 1.0], 1.0, "the budget ended the search"),
    ],
    ids=["target-missed", "target-trivial", "nothing-learned", "one-seed", "budget"],
)
def test_what_speaks_against_the_answer_is_said(
    question: Ask, options: dict[str, Any], levels: list[float], first: float, said: str
) -> None:
    found = answer(question(sizes=(2, 3), **options), levels, first)
    assert found.cautions[0].startswith(said)
    assert f"but: {said}" in text(found)
    assert found.as_dict()["cautions"] == list(found.cautions)


@pytest.mark.parametrize("level", [inf, 0.0, -3.0], ids=["diverged", "zero", "negative"])
def test_every_loss_can_be_drawn(question: Ask, level: float) -> None:
    assert draw_pilots(answer(question(sizes=(2, 3)), [1.0, 0.1, level, 0.5]), "png").startswith(b"\x89PNG")
