"""The section on remedies, with synthetic curves."""

import pytest
from synthetic_curves import SyntheticResults, curve

from slotwise.batch.job import Run
from slotwise.paper.evidence import Curve
from slotwise.paper.experiments import PAPER, Remedies, selected
from slotwise.paper.figures import figures_of
from slotwise.paper.report_verdicts import remedies_section, remedies_table
from slotwise.report.page import html
from slotwise.runs import RunConfig


@pytest.fixture
def remedies() -> Remedies:
    (experiment,) = selected(PAPER, ["remedies"])
    assert isinstance(experiment, Remedies)
    return experiment


def labelled(remedies: Remedies, seed: int) -> dict[str, RunConfig]:
    return remedies.remedies(seed) | remedies.fixed(seed)


def ending(remedies: Remedies, finals: dict[str, float], collapsed: tuple[str, ...] = ()) -> SyntheticResults:
    """Curves of two seeds that end at the given losses, all others at 0.5."""
    results = SyntheticResults(RunConfig())
    for seed in (0, 1):
        for label, config in labelled(remedies, seed).items():
            run, accuracy = Run.of(config), 0.1 if label in collapsed else 0.9
            points = curve(config, finals.get(label, 0.5), accuracy=accuracy)
            results.curves[run.name] = Curve(run, "finished", points)
    return results


def text(remedies: Remedies, results: SyntheticResults) -> str:
    return "\n".join(map(html, remedies_section(remedies_table(remedies, results, (0, 1))).parts))


def test_remedies_below_the_best_are_named_and_collapsed_ones_left_out(remedies: Remedies) -> None:
    assert len(remedies.runs(0)) == len(labelled(remedies, 0)) == 2 * 4 + 2 * 3
    found = text(remedies, ending(remedies, {"idfl S=5": 0.1, "async S=1, steps/d": 0.05}))
    assert "(idfl S=5) with every seed (2 seeds): async S=1, steps/d." in found
    results = ending(remedies, {"idfl S=1": 0.01, "idfl S=10": 0.2}, collapsed=("idfl S=1",))
    assert "(idfl S=10) with every seed (2 seeds): no remedy." in text(remedies, results)


def test_nothing_is_decided_before_all_runs_have_ended(remedies: Remedies) -> None:
    assert "Not decided" in text(remedies, SyntheticResults(RunConfig()))
    results = ending(remedies, {"idfl S=5": 0.1, "async S=1, steps/d": 0.05})
    run = results.curves.pop(Run.of(remedies.remedies(0)["idfl S=1, steps/d"]).name)
    assert run.points
    found = text(remedies, results)
    assert "Not decided yet: 1 run of 28" in found
    assert "not trained" in found


def test_the_figure_has_both_schedules_with_the_paper_s_runs_beside_them(remedies: Remedies) -> None:
    (figure,) = figures_of(remedies, ending(remedies, {}), (0, 1))
    assert [len(panel.lines) for panel in figure.panels] == [7, 7]
    assert [sum(line.dash == "dashed" for line in panel.lines) for panel in figure.panels] == [3, 3]
