"""The figures in docs/results are still those that the program gives."""

from dataclasses import replace
from pathlib import Path

import pytest

from slotwise.learning import train
from slotwise.runs import RunFolder
from slotwise.runs.build import build_task

RUNS = sorted((Path(__file__).parents[1] / "docs/results/paper/runs").iterdir())


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_slots_rounds_and_staleness_of_a_published_curve_are_those_of_its_schedule(path: Path) -> None:
    folder = RunFolder.open(path)
    timeline = folder.parameters().timeline()
    assert timeline.fleet is None
    for point in folder.points()[1:]:
        assert point.slot == timeline.broadcast_end[point.round - 1]
        assert point.staleness == timeline.staleness[timeline.uplinks(point.round - 1)].max()
    assert folder.points()[-1].round == timeline.rounds


def test_the_beginning_of_a_published_curve_is_learned_again() -> None:
    """45 rounds of one update. Published runs summed in another order, so digits agree and bits need not."""
    folder = RunFolder.open(next(path for path in RUNS if path.name.startswith("mnist-async-S1-link5-")))
    start, published = folder.points()[:2]
    parameters = replace(folder.parameters(), deadline=published.slot, evaluate_every=published.slot)
    found = train(parameters.timeline(), build_task(parameters), evaluate_every=published.slot).points
    assert [(p.slot, p.round, p.staleness) for p in found] == [
        (p.slot, p.round, p.staleness) for p in (start, published)
    ]
    assert [p.loss for p in found] == pytest.approx([start.loss, published.loss], rel=1e-4)
    assert [p.accuracy for p in found] == pytest.approx([start.accuracy, published.accuracy], abs=1e-3)
