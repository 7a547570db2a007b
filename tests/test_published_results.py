"""The figures in docs/results are still those that the program gives."""

import csv
from pathlib import Path

import pytest

from slotwise.batch import BatchSpec
from slotwise.learning import train
from slotwise.runs import RunFolder
from slotwise.runs.execution import build_task
from slotwise.schedule.costs import joules, spared_until, usage_until

ROOT = Path(__file__).parents[1]
RUNS = sorted((ROOT / "docs/results/paper/runs").iterdir())
COMPARISONS = [
    ROOT / f"examples/sweep/{path.parent.name}.toml"
    for path in sorted(ROOT.glob("docs/results/compare/*/results.csv"))
]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_slots_rounds_and_staleness_of_a_published_curve_are_those_of_its_schedule(path: Path) -> None:
    folder = RunFolder.open(path)
    timeline = folder.parameters().simulate()
    assert timeline.equal_devices
    for point in folder.points()[1:]:
        assert point.slot == timeline.broadcast_end[point.round - 1]
        assert point.staleness == timeline.staleness[timeline.uplinks(point.round - 1)].max()
    if folder.status != "diverged":
        assert folder.points()[-1].round == timeline.rounds


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_rounds_staleness_and_joules_of_a_published_comparison_are_those_of_its_schedules(path: Path) -> None:
    spec = BatchSpec.read(path)
    assert spec.powers is not None
    with (ROOT / "docs/results/compare" / path.stem / "results.csv").open(newline="") as file:
        published = {row["run"]: row for row in csv.DictReader(file)}
    for point in spec.points:
        timeline, row = point.run.config.simulate(), published.pop(point.run.name)
        counts = [int(row[name]) for name in ("rounds", "updates", "lost", "slots")]
        assert counts == [timeline.rounds, len(timeline), len(timeline.lost), timeline.last_slot]
        assert float(row["mean_staleness"]) == pytest.approx(timeline.mean_staleness())
        end = [timeline.last_slot]
        spent = joules(usage_until(timeline, end), spec.powers, spared_until(timeline, end))
        assert float(row["joules"]) == pytest.approx(float(spent[0]))
    assert not published


def test_the_beginning_of_a_published_curve_is_learned_again() -> None:
    """45 rounds of one update. Published runs summed in another order, so digits agree and bits need not."""
    folder = RunFolder.open(next(path for path in RUNS if path.name.startswith("mnist-async-S1-link5-")))
    start, published = folder.points()[:2]
    parameters = folder.parameters().with_options(deadline=published.slot, evaluate_every=published.slot)
    found = train(parameters.simulate(), build_task(parameters), evaluate_every=published.slot).points
    assert [(p.slot, p.round, p.staleness) for p in found] == [
        (p.slot, p.round, p.staleness) for p in (start, published)
    ]
    assert [p.loss for p in found] == pytest.approx([start.loss, published.loss], rel=1e-4)
    assert [p.accuracy for p in found] == pytest.approx([start.accuracy, published.accuracy], abs=1e-3)
