"""Texts of final losses and accuracies."""

from math import nan

from slotwise.paper.result_text import final_accuracy_text, final_loss_text, mean_text, staleness


def test_means_leave_out_collapsed_seeds_and_say_so() -> None:
    assert mean_text([0.1, 0.3]) == "0.2"
    assert mean_text([0.1, nan, 0.3]) == "0.2 (1 of 3 seeds collapsed)"
    assert mean_text([nan, nan]) == "collapsed"


def test_losses_and_accuracies_are_of_the_same_seeds(synthetic, evidence_of) -> None:
    results = synthetic()
    results.set("async", 10, 0.5, 0.5, 0.5, accuracy=0.1)
    results.set("async", 10, 0.2, 0.4)
    evidence = evidence_of(results, (10,), 3)
    assert final_loss_text(evidence, "async", 10) == "0.3 (0.2 to 0.4, 1 of 3 seeds collapsed)"
    assert final_accuracy_text(evidence, "async", 10) == "90.0% (90.0 to 90.0, 1 of 3 seeds collapsed)"


def test_of_runs_that_all_collapsed_those_that_did_not_diverge_are_shown(synthetic, evidence_of) -> None:
    results = synthetic()
    results.set("async", 1, 2.3, 2.3, accuracy=0.1)
    results.set("async", 1, 2.3, accuracy=0.1, status="diverged")
    evidence = evidence_of(results, (1,), 2)
    assert final_loss_text(evidence, "async", 1) == "collapsed, 2.3"
    assert final_accuracy_text(evidence, "async", 1) == "10.0% (1 seed diverged)"
    results.set("async", 1, 2.3, 2.3, accuracy=0.1, status="diverged")
    assert final_loss_text(evidence, "async", 1) == final_accuracy_text(evidence, "async", 1) == "diverged"


def test_staleness_is_that_of_the_papers_table(synthetic) -> None:
    base = synthetic().base
    for schedule, expected in (("async", [99, 19, 9, 3, 1, 0]), ("idfl", [25, 9, 5, 2, 1, 0])):
        sizes = (1, 5, 10, 25, 50, 100)
        assert [staleness(base.with_options(schedule=schedule, group_size=s)) for s in sizes] == expected
