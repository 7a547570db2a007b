"""What the page of results says about CIFAR-10 and the remedies is what the published runs say."""

from collections import Counter
from itertools import product
from math import inf, isnan

import numpy as np
from doc_pages import ROOT

from slotwise.data import one_label
from slotwise.learning.randomness import Purpose, generator
from slotwise.paper.claims import judge
from slotwise.paper.evidence import Evidence, Results
from slotwise.paper.experiments import BOTH, PAPER, Remedies
from slotwise.paper.report_verdicts import remedies_table
from slotwise.runs.saved_run import final_accuracy, final_loss
from slotwise.schedule import Schedule

RUNS = ROOT / "docs/results/paper/runs"
PAGE = (ROOT / "docs/results/README.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.replace(">", "").split())


def test_figures_of_cifar10_are_those_of_the_published_results() -> None:
    (experiment,) = [one for one in PAPER if one.name == "comparison-cifar10"]
    evidence = Evidence(experiment.config("async", 1), experiment.group_sizes, (), (0,), Results(RUNS))
    (without,), (delayed,) = evidence.finals("async"), evidence.finals("idfl")
    (unsteady,) = evidence.curves("async", 2)
    last = [point.loss for point in unsteady.points if point.slot > 0.9 * experiment.deadline]
    assert f"from {without[5]:.4f} to {delayed[5]:.5f} at S=5" in TEXT
    between = f"(between {min(last):.2f} and {max(last):.1f} in the last tenth)"
    assert f"from {without[2]:.2f} {between} to {delayed[2]:.5f} at S=2" in TEXT
    assert f"from a collapsed run (d=19) to {delayed[1]:.6f}" in TEXT
    assert isnan(without[1])
    assert min(delayed, key=lambda size: delayed[size]) == 1
    assert min(without, key=lambda size: inf if isnan(without[size]) else without[size]) == 5
    assert f"rises from {delayed[1]:.6f} to {delayed[20]:.2f}" in TEXT

    def accuracy(schedule: Schedule, size: int) -> str:
        (curve,) = evidence.curves(schedule, size)
        return f"{100 * final_accuracy(curve.points, experiment.deadline):.0f}"

    pairs = [f"{accuracy('async', size)} to {accuracy('idfl', size)} %" for size in (1, 2, 5)]
    assert f"({pairs[0]}, {pairs[1]} and {pairs[2]} at S=1, 2 and 5)" in TEXT
    *most, end = (accuracy("idfl", size) for size in (1, 2, 5, 10, 20))
    assert f"the accuracy is {', '.join(most)} and {end} %" in TEXT
    early = []
    for size in (5, 10, 20):
        (curve,) = evidence.curves("async", size)
        early.append(final_loss([point for point in curve.points if point.slot <= 20_000], 20_000))
    assert "({:.2f}, {:.2f} and {:.2f})".format(*early) in TEXT
    gallery = (ROOT / "docs/gallery/paper.md").read_text(encoding="utf-8")
    assert f"{end} % with a training loss of {without[20]:.2f}" in gallery
    every = product(BOTH, experiment.group_sizes)
    low = [accuracy(*run) for run in every if evidence.final(*run)[0] < 0.01]
    assert f"{min(low)} to {max(low)} % test accuracy" in gallery
    held = [found.statement.name for found in judge(evidence) if found.truth]
    assert f"five of ten statements hold ({', '.join(held[:-1])} and {held[-1]})" in TEXT


def test_the_devices_of_cifar10_have_nine_of_the_ten_labels() -> None:
    """The rows of CIFAR-10 are not needed: it has 5,000 training images of each label."""
    labels = np.repeat(np.arange(10, dtype=np.uint8), 5_000)
    rows = one_label(labels, 20, 250, generator(0, Purpose.PARTITION))
    found = Counter(int(labels[own[0]]) for own in rows)
    birds, cars = 2, 1
    assert (found[birds], found[cars], len(found)) == (0, 6, 9)
    assert "have nine of the ten: six have cars, none has birds" in TEXT


def test_the_variants_of_cifar10_are_those_of_the_published_runs() -> None:
    rows = {
        "averaged updates, IID devices": "cifar10-iid",
        "averaged models, one label": "cifar10-model-average",
        "averaged models, IID devices": "cifar10-iid-model-average",
    }
    runs = [*product(["async"], (1, 2, 5, 10, 20)), *product(["idfl"], (1, 2, 5))]
    for title, study in rows.items():
        (experiment,) = [one for one in PAPER if one.study == study]
        base = experiment.config("async", 1)
        evidence = Evidence(base, experiment.group_sizes, (), (0,), Results(RUNS))
        texts = [evidence.final_texts(*run, "")[0] for run in runs]  # type: ignore[arg-type]
        cells = ["×" if text.startswith("collapsed") else text for text in texts]
        assert f"| {title} | {' | '.join(cells)} |" in PAGE


def test_the_remedies_are_those_of_the_published_runs() -> None:
    (experiment,) = [one for one in PAPER if isinstance(one, Remedies)]
    found = remedies_table(experiment, Results(RUNS), range(3))
    assert found.verdict.startswith("Below the best fixed group size here (idfl S=5)")
    assert found.verdict.endswith("(3 seeds): no remedy.")
    learned = [row for row in found.rows if not {"collapsed", "diverged"} & set(row)]
    ends = {label: sorted(cells[:3], key=float) for label, *cells in learned}
    spans = {label: f"{losses[0]} to {losses[-1]}" for label, losses in ends.items()}
    named = ("idfl S=5", f"idfl S={experiment.shrinking}", "async S=1, steps/d", "idfl S=1, steps/d")
    assert all(spans[label] in TEXT for label in (*named, "async S=5, steps/d", "idfl S=5, steps/d"))
    shorter = [float(losses[0]) for label, losses in ends.items() if label.endswith("steps/d")]
    assert (len(shorter), min(shorter) > 0.15) == (6, True)
