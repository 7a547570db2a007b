"""Which curves the claims are judged on."""

from slotwise.batch.job import Run
from slotwise.paper.evidence import Curve, ended_seeds, has_collapsed
from slotwise.paper.experiments import PAPER, selected


def test_seeds_that_are_not_complete_are_left_out_until_they_are(synthetic) -> None:
    results, (experiment,) = synthetic(), selected(PAPER, ["async-mnist"])
    assert ended_seeds(results, experiment.runs, range(3)) == range(3)  # so that the missing runs are named
    for size in experiment.group_sizes:
        results.set("async", size, 0.5, 0.5, 0.5)
    assert list(ended_seeds(results, experiment.runs, range(3))) == [0, 1, 2]
    results.set("async", 5, 0.5, status="diverged")
    del results.curves[Run.of(experiment.config("async", 10, 1)).name]
    assert list(ended_seeds(results, experiment.runs, range(3))) == [0, 2]


def test_a_run_collapses_by_its_accuracy_or_by_diverging(synthetic) -> None:
    results = synthetic()
    results.set("async", 10, 0.5, accuracy=0.14)
    (low,) = results.curves.values()
    results.set("async", 10, 0.5, accuracy=0.16)
    (high,) = results.curves.values()
    diverged = Curve(high.run, "diverged", high.points)
    assert [has_collapsed(curve, 50_000) for curve in (low, high, diverged)] == [True, False, True]
