"""results.md, with synthetic curves."""

from itertools import pairwise

import pytest
from synthetic_curves import SyntheticResults

from slotwise.paper.experiments import UPDATES
from slotwise.paper.report_verdicts import Judged, RemediesTable
from slotwise.paper.results_markdown import results_markdown

SIZES = (10, 50, 100)


def rows(text: str, beginning: str) -> list[list[str]]:
    found = [line for line in text.splitlines() if line.startswith(f"| {beginning}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


@pytest.fixture
def results(synthetic) -> SyntheticResults:
    made = synthetic()
    for size, finals in zip(SIZES, ((0.5, 0.3), (0.2, 0.2), (0.9, 0.7)), strict=True):
        made.set("async", size, *finals)
    made.set("idfl", 10, 0.1, 0.3)
    return made


@pytest.fixture
def text(results, evidence_of) -> str:
    remedies = RemediesTable(("", "loss, seed 0"), (("idfl S=5", "0.01"),), "No remedy.")
    judged, few = (Judged(UPDATES, evidence_of(results, SIZES, seeds)) for seeds in (2, 1))
    return results_markdown([judged], [few], [remedies])


def test_losses_verdicts_and_cells_are_complete(text: str) -> None:
    assert rows(text, "async, loss") == [
        ["async, loss", "0.4 (0.3 to 0.5)", "0.2 (0.2 to 0.2)", "0.8 (0.7 to 0.9)"],
        ["async, loss", "0.5", "0.2", "0.9"],
    ]
    assert rows(text, "idfl, loss")[0][1] == "0.2 (0.1 to 0.3)"
    assert rows(text, "idfl, d") == 2 * [["idfl, d", "5", "1", "0"]]
    # For all seeds and for one: among all statements, and with the figures.
    assert [row[-1] for row in rows(text, "1b")][::2] == ["held", "held"]
    assert rows(text, "1b")[1][:3] == ["1b", "held", "lowest at S=50"]
    assert rows(text, "1b")[1][3].startswith("async: S=10 0.4,")
    lines = text.splitlines()
    pairs = [pair for pair in pairwise(lines) if all(line.startswith("|") for line in pair)]
    assert pairs
    assert all(one.count("|") == other.count("|") for one, other in pairs)
    assert "| idfl S=5 | 0.01 |" in lines


def test_what_is_missing_or_collapsed_is_said(results, evidence_of) -> None:
    results.set("async", 10, 2.3, 2.3, accuracy=0.1)
    del results.curves["mnist-idfl-S10-T50000-seed1"]
    results.set("async", 50, 0.2, status="diverged")
    text = results_markdown([Judged(UPDATES, evidence_of(results, SIZES, 2))], [], [])
    assert rows(text, "async, loss")[0][1:3] == ["collapsed, 2.3", "0.2 (1 of 2 seeds collapsed)"]
    assert rows(text, "async, accuracy")[0][1:3] == ["10.0% (10.0 to 10.0)", "90.0% (1 of 2 seeds collapsed)"]
    assert rows(text, "idfl, loss")[0][1] == "not trained"
