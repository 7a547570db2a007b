"""Which curves the claims are judged on, and their final figures as texts."""

from math import inf, nan

from slotwise.batch.job import Run
from slotwise.paper.evidence import Curve, mean_text, staleness
from slotwise.paper.experiments import PAPER, selected


def test_seeds_that_are_not_complete_are_left_out_until_they_are(synthetic) -> None:
    results, (experiment,) = synthetic(), selected(PAPER, ["async-mnist"])
    assert results.ended_seeds(experiment.runs, range(3)) == range(3)  # so that the missing runs are named
    for size in experiment.group_sizes:
        results.set("async", size, 0.5, 0.5, 0.5)
    assert list(results.ended_seeds(experiment.runs, range(3))) == [0, 1, 2]
    results.set("async", 5, 0.5, status="diverged")
    del results.curves[Run.of(experiment.config("async", 10, 1)).name]
    assert list(results.ended_seeds(experiment.runs, range(3))) == [0, 2]


def test_a_run_collapses_by_its_accuracy_or_by_diverging(synthetic) -> None:
    results = synthetic()
    results.set("async", 10, 0.5, accuracy=0.14)
    (low,) = results.curves.values()
    results.set("async", 10, 0.5, accuracy=0.16)
    (high,) = results.curves.values()
    diverged = Curve(high.run, "diverged", high.points)
    assert [curve.has_collapsed for curve in (low, high, diverged)] == [True, False, True]


def test_means_leave_out_collapsed_seeds_and_say_so() -> None:
    assert mean_text([0.1, 0.3]) == "0.2"
    assert mean_text([0.1, nan, 0.3]) == "0.2 (1 of 3 seeds collapsed)"
    assert mean_text([0.1, inf]) == "0.1 (1 of 2 seeds collapsed)"
    assert mean_text([nan, inf]) == "collapsed"


def test_losses_and_accuracies_are_of_the_same_seeds(synthetic, evidence_of) -> None:
    results = synthetic()
    results.set("async", 10, 0.5, 0.5, 0.5, accuracy=0.1)
    results.set("async", 10, 0.2, 0.4)
    evidence = evidence_of(results, (10,), 3)
    loss, accuracy, _ = evidence.final_texts("async", 10, "")
    assert loss == "0.3 (0.2 to 0.4, 1 of 3 seeds collapsed)"
    assert accuracy == "90.0% (90.0 to 90.0, 1 of 3 seeds collapsed)"


def test_of_runs_that_all_collapsed_those_that_did_not_diverge_are_shown(synthetic, evidence_of) -> None:
    results = synthetic()
    results.set("async", 1, 2.3, 2.3, accuracy=0.1)
    results.set("async", 1, 2.3, accuracy=0.1, status="diverged")
    evidence = evidence_of(results, (1,), 2)
    assert evidence.final_texts("async", 1, "")[:2] == ("collapsed, 2.3", "10.0% (1 seed diverged)")
    results.set("async", 1, 2.3, 2.3, accuracy=0.1, status="diverged")
    assert evidence.final_texts("async", 1, "")[:2] == ("diverged", "diverged")


def test_staleness_is_that_of_the_papers_table(synthetic) -> None:
    base = synthetic().base
    for schedule, expected in (("async", [99, 19, 9, 3, 1, 0]), ("idfl", [25, 9, 5, 2, 1, 0])):
        sizes = (1, 5, 10, 25, 50, 100)
        assert [staleness(base.with_options(schedule=schedule, group_size=s)) for s in sizes] == expected
