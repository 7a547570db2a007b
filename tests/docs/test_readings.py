"""The table of the page about the readings has the losses and verdicts of the published runs."""

import re
from itertools import product

from doc_pages import ROOT

from slotwise.paper.claims import judge
from slotwise.paper.evidence import Evidence, Results
from slotwise.paper.experiments import PAPER, Readings, Remedies
from slotwise.paper.report_remedies import remedies_table
from slotwise.paper.result_text import final_loss_text

RUNS = ROOT / "docs/results/paper/runs"
PAGE = (ROOT / "docs/readings.md").read_text(encoding="utf-8")


def test_the_variants_of_cifar10_are_those_of_the_published_runs() -> None:
    page = (ROOT / "docs/results/README.md").read_text(encoding="utf-8")
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
        texts = [final_loss_text(evidence, *run) for run in runs]  # type: ignore[arg-type]
        cells = ["×" if text.startswith("collapsed") else text for text in texts]
        assert f"| {title} | {' | '.join(cells)} |" in page


def test_the_remedies_are_those_of_the_published_runs() -> None:
    page = " ".join((ROOT / "docs/results/README.md").read_text(encoding="utf-8").split())
    (experiment,) = [one for one in PAPER if isinstance(one, Remedies)]
    found = remedies_table(experiment, Results(RUNS), range(3))
    assert found.verdict.startswith("Below the best fixed group size here (idfl S=5)")
    assert found.verdict.endswith("(3 seeds): no remedy.")
    learned = [row for row in found.rows if not {"collapsed", "diverged"} & set(row)]
    ends = {label: sorted(cells[:3], key=float) for label, *cells in learned}
    spans = {label: f"{losses[0]} to {losses[-1]}" for label, losses in ends.items()}
    named = ("idfl S=5", f"idfl S={experiment.shrinking}", "async S=1, steps/d", "idfl S=1, steps/d")
    assert all(spans[label] in page for label in (*named, "async S=5, steps/d", "idfl S=5, steps/d"))


def test_the_table_is_what_the_published_runs_say() -> None:
    results = Results(RUNS)
    (experiment,) = [one for one in PAPER if isinstance(one, Readings)]
    _, table = PAGE.split("All seven readings", 1)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "|" in line]
    (_, *letters), _, *rows = rows
    assert letters == [reading.letter for reading in experiment.readings]
    checked = 0
    for column, reading in enumerate(experiment.readings, start=1):
        base = experiment.under(reading).config("async", 1)
        evidence = Evidence(base, experiment.group_sizes, experiment.slots, (0,), results)
        verdicts = {found.statement.name: found.verdict for found in judge(evidence)}
        for row in rows:
            if run := re.fullmatch(r"(async|idfl), S=(\d+)", row[0]):
                text = final_loss_text(evidence, run[1], int(run[2]))  # type: ignore[arg-type]
                assert row[column] == ("×" if text.startswith(("collapsed", "diverged")) else text)
            else:
                assert row[column] == verdicts[row[0].partition(":")[0]]
            checked += 1
    assert checked == 12 * 7
