"""The table of the page about the readings has the losses and verdicts of the published runs."""

import re

from doc_pages import ROOT

from slotwise.paper.claims import judge
from slotwise.paper.evidence import Evidence, Results
from slotwise.paper.experiments import PAPER, Readings

PAGE = (ROOT / "docs/readings.md").read_text(encoding="utf-8")


def test_the_table_is_what_the_published_runs_say() -> None:
    results = Results(ROOT / "docs/results/paper/runs")
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
                text = evidence.final_texts(run[1], int(run[2]), "")[0]  # type: ignore[arg-type]
                assert row[column] == ("×" if text.startswith(("collapsed", "diverged")) else text)
            else:
                assert row[column] == verdicts[row[0].partition(":")[0]]
            checked += 1
    assert checked == 18 * 7
