"""The first sentences of the report, with the published runs and with synthetic ones."""

import re
from collections.abc import Sequence

import pytest

from slotwise.paper.experiments import UPDATES
from slotwise.paper.headline import IDEA, idea, verdicts
from slotwise.paper.published import PublishedResults, published_manifest
from slotwise.paper.report_verdicts import Judged
from slotwise.paper.study_results import StudyResults
from slotwise.report.page import html


@pytest.fixture(scope="module")
def published() -> StudyResults:
    return StudyResults(published_manifest(), PublishedResults())


def told(judged: Sequence[Judged]) -> str:
    return "".join(map(html, idea(judged)))


def test_the_published_runs_are_told_in_two_paragraphs(published: StudyResults) -> None:
    judged = [published.judged["mnist"], published.judged["cifar10"]]
    losses, counts = told(judged), html(verdicts(judged))
    assert IDEA in losses
    assert "It lowers the final training loss at S=5 and S=10 with every seed." in losses
    assert "In part." in counts
    cells = re.findall(r"<td[^>]*>(.*?)</td>", losses)
    assert cells[:4] == ["S=5", "0.181", "0.546 <wbr>(2 of 3 seeds collapsed)", "0.0151"]
    assert cells[4:] == ["S=10", "0.198", "0.0662", "0.0363"]
    assert "(MNIST, 100 devices, 50,000 slots, 3 seeds; means without collapsed runs)" in losses
    assert "MNIST (3 seeds): 8 of 17 hold, 9 do not, 0 not decided;" in counts
    assert "Best S: async 10 (paper: 50), idfl 5 (paper: 10)." in counts
    assert "CIFAR-10 (1 seed): 6 of 12 hold, 5 do not, 1 not decided." in counts


def test_without_synchronous_runs_there_are_no_losses(synthetic, evidence_of) -> None:
    results = synthetic()
    results.set("async", 10, 0.5)
    results.set("idfl", 10, 0.1)
    assert "loss" not in told([Judged(UPDATES, evidence_of(results, (10,)))])


def test_without_runs_there_is_only_the_idea() -> None:
    assert told([]) == f"<p><strong>{IDEA}</strong></p>"
