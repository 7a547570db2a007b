"""The comparison of beginnings with published runs, with synthetic curves."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from synthetic_curves import SyntheticResults

from slotwise.batch.job import Run
from slotwise.learning import Point
from slotwise.paper.beginnings import (
    Beginning,
    beginnings_figure,
    beginnings_section,
    beginnings_sentence,
    find_beginnings,
)
from slotwise.paper.evidence import Curve
from slotwise.paper.published import PublishedResults
from slotwise.paper.reproduction import Manifest, Request
from slotwise.report.page import html
from slotwise.runs import RunConfig

MANIFEST = Manifest(True, {"mnist": Request(None, 1, ("schedules-mnist",))})


def trained(change: float = 0.0, since: int = 0) -> SyntheticResults:
    """The published beginnings, with losses from some slot on that differ by a part of themselves."""
    results, published = SyntheticResults(RunConfig()), PublishedResults()
    for run in MANIFEST.runs():
        whole = Run.of(run.config.with_options(deadline=50_000, evaluate_every=None))
        kept = [point for point in published.curve(whole).points if point.slot <= run.config.deadline]
        points = [p._replace(loss=p.loss * (1 + change)) if p.slot >= since else p for p in kept]
        results.curves[run.name] = Curve(run, "finished", points)
    return results


def beginnings(results: SyntheticResults) -> Sequence[Beginning]:
    return find_beginnings(MANIFEST, results, PublishedResults())


def test_equal_bits_are_said_to_be_equal() -> None:
    found = beginnings(trained())
    assert [(len(one.pairs), one.result, one.agrees_until > 4_900) for one in found] == 6 * [
        (11, "equal", True)
    ]
    sentence = html(beginnings_sentence(found))
    assert "first 5,000 slots of 6 runs" in sentence
    assert "all 66 evaluations equal to the last bit" in sentence


@pytest.mark.parametrize(
    ("change", "since", "result", "said"),
    [
        (1e-9, 1, "same curve", "within 1 % up to slot"),
        (0.2, 3_000, "same curve", "later losses differ by up to 20 %"),
        (0.2, 0, "different", "up to 20 %, and from the start"),
    ],
)
def test_differences_are_told_with_the_slot_up_to_which_curves_agree(
    change: float, since: int, result: str, said: str
) -> None:
    found = beginnings(trained(change, since))
    assert {one.result for one in found} == {result}
    assert max(one.largest_difference for one in found) == pytest.approx(change)
    assert said in html(beginnings_sentence(found))
    if since == 3_000:
        assert all(2_500 < one.agrees_until < 3_000 for one in found[1:3])


def test_evaluations_that_the_published_run_does_not_have_are_not_compared() -> None:
    one = beginnings(trained())[0]
    longer = [*one.trained.points, Point(5_001, 90, 1.0, 0.5, 0)]
    assert len(Beginning(one.published, replace(one.trained, points=longer)).pairs) == 11
    assert not Beginning(one.published, replace(one.trained, points=())).is_equal


def test_the_figure_has_the_trained_curves_on_top_of_the_published_ones() -> None:
    found = beginnings(trained())
    figure = beginnings_figure(found)
    assert [panel.title for panel in figure.panels] == ["S=5", "S=10"]
    for panel in figure.panels:
        assert [line.label for line in panel.lines] == [*("sync", "async", "idfl"), *["this machine"] * 3]
        for published, here in zip(panel.lines[:3], panel.lines[3:], strict=True):
            assert list(here.seeds[0]) == list(published.seeds[0])
    parts = "".join(map(html, beginnings_section(found, figure).parts))
    assert "mnist-idfl-S5-T50000-seed1" in parts


def test_runs_that_have_not_begun_are_left_out() -> None:
    results = trained()
    del results.curves[MANIFEST.runs()[0].name]
    assert len(beginnings(results)) == 5
