"""The tables of the page of results are what the published runs say."""

from collections import Counter
from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from doc_pages import ROOT

from slotwise.data.partitions import one_label
from slotwise.learning.randomness import Purpose, generator
from slotwise.paper.chains import chain_losses, chains_text
from slotwise.paper.criteria import mean_loss
from slotwise.paper.evidence import Evidence, Results, final_accuracy_text, final_loss_text, mean_text
from slotwise.paper.experiments import BOTH, PAPER, Remedies
from slotwise.paper.report_verdicts import remedies_table
from slotwise.paper.reproduction import Manifest, reproduction_folder
from slotwise.paper.study_results import StudyResults
from slotwise.runs.saved_run import final_accuracy, final_loss
from slotwise.schedule import Schedule

PUBLISHED = ROOT / "docs/results/paper"
RUNS = PUBLISHED / "runs"
PAGE = (ROOT / "docs/results/README.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
TITLES = {
    "mnist": "MNIST, averaged updates",
    "mnist-model-average": "MNIST, averaged models",
    "cifar10": "CIFAR-10, averaged updates",
}


@pytest.fixture(scope="module")
def studies() -> StudyResults:
    return StudyResults(Manifest.read(reproduction_folder(PUBLISHED)), Results(RUNS))


def rows(section: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading, by their first cells, without bold type."""
    _, text = PAGE.split(f"### {section}\n", 1)
    lines = [line for line in text.partition("\n### ")[0].replace("**", "").splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {name: found for name, *found in cells}


def short(text: str) -> str:
    """A text of results.md without the range of its seeds; collapsed runs are crosses."""
    value, _, notes = text.rstrip(")").partition(" (")
    if value.startswith(("collapsed", "diverged")):
        return "×"
    return value + (f", {notes.replace('collapsed', '×')}" if "collapsed" in notes else "")


@pytest.mark.parametrize("study", TITLES)
def test_tables_of_losses_and_accuracies_are_those_of_the_published_runs(
    studies: StudyResults, study: str
) -> None:
    evidence, shown = studies.judged[study].evidence, rows(TITLES[study])
    for schedule in BOTH:
        texts = [evidence.final_texts(schedule, size, "") for size in evidence.group_sizes]
        losses = [short(loss) for loss, _, _ in texts]
        assert shown[f"{schedule}, loss"] == losses
        accuracies = [
            short(text) if loss != "×" else "×" for loss, (_, text, _) in zip(losses, texts, strict=True)
        ]
        assert shown[f"{schedule}, accuracy"] == accuracies
        if f"{schedule}, d" in shown:
            assert shown[f"{schedule}, d"] == [age for _, _, age in texts]


def test_synchronous_runs_are_those_of_the_published_ones(studies: StudyResults) -> None:
    evidence, shown = studies.judged["mnist"].evidence, rows(TITLES["mnist"])
    for name, text in (("loss", final_loss_text), ("accuracy", final_accuracy_text)):
        found = [short(text(evidence.curves("sync", size))) for size in (5, 10)]
        assert shown[f"sync, {name}"] == ["", *found, "", "", ""]


@pytest.mark.parametrize("study", TITLES)
def test_verdicts_are_those_of_the_published_runs(studies: StudyResults, study: str) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {TITLES[study]}")]
    cells = [cell.strip().split(", ") for cell in line.split("|")[2:-1]]
    judged = studies.judged[study].judgements
    for verdict, names in zip(("held", "not held", "not decided"), cells, strict=True):
        assert names == ([found.statement.name for found in judged if found.verdict == verdict] or [""])


def test_verdicts_that_changed_with_the_rules_are_those_of_the_published_runs(studies: StudyResults) -> None:
    _, text = PAGE.split("### Rules that changed after the runs\n", 1)
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    heading, *shown = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    assert heading[3::2] == ["now"] * 3
    verdicts = [{j.statement.name: j.verdict for j in studies.judged[study].judgements} for study in TITLES]
    for name, _, *cells in shown:
        assert cells[1::2] == [known.get(name, "") for known in verdicts]
    assert [name for name, *_ in shown] == ["1c", "2a", "3a", "3b", "3d", "4a", "6a"]


def test_best_group_sizes_are_those_of_the_published_runs(studies: StudyResults) -> None:
    def best(study: str, schedule: Schedule) -> str:
        tables = studies.judged[study].evidence.finals(schedule)
        means = {size: np.mean([table[size] for table in tables]) for size in tables[0]}
        return str(min(means, key=lambda size: means[size]))

    for schedule, paper in (("async", 50), ("idfl", 10)):
        found = " | ".join(best(study, schedule) for study in ("mnist", "mnist-model-average"))  # type: ignore[arg-type]
        assert f"| MNIST, {schedule} | {paper} | {found} |" in PAGE
    assert f"| CIFAR-10, async | 5 in one sentence, 10 in another | {best('cifar10', 'async')} | |" in PAGE
    assert f"| CIFAR-10, idfl | 5 | {best('cifar10', 'idfl')} | |" in PAGE


def test_cifar10_shows_the_trend_of_mnist(studies: StudyResults) -> None:
    mnist, cifar10 = (studies.judged[study] for study in ("mnist", "cifar10"))
    for judged in (mnist, cifar10):
        held = {found.statement.name for found in judged.judgements if found.truth}
        assert {"3a", "3b", "3d"} <= held
    for schedule in BOTH:
        (smaller,) = cifar10.evidence.finals(schedule)
        for larger in mnist.evidence.finals(schedule):
            assert min(smaller, key=lambda size: smaller[size]) < min(larger, key=larger.__getitem__)
    assert '"similar trend"' in TEXT


def test_most_accurate_group_sizes_are_those_of_the_published_runs(studies: StudyResults) -> None:
    def best(study: str, schedule: Schedule) -> str:
        evidence = studies.judged[study].evidence
        curves = {size: evidence.curves(schedule, size) for size in evidence.group_sizes}
        means = {size: np.mean([curve.final_accuracy for curve in own]) for size, own in curves.items()}
        return str(max(means, key=lambda size: means[size]))

    _, table = PAGE.split("| most accurate S |", 1)
    for schedule in BOTH:
        found = " | ".join(best(study, schedule) for study in ("mnist", "mnist-model-average"))
        assert f"| MNIST, {schedule} | {found} |" in table
        assert f"| CIFAR-10, {schedule} | {best('cifar10', schedule)} | |" in table


def test_losses_by_chain_are_those_of_the_published_runs(studies: StudyResults) -> None:
    evidence = studies.judged["mnist-model-average"].evidence
    for schedule in BOTH:
        cells = [chains_text(evidence.curves(schedule, size)) for size in evidence.group_sizes]
        assert f"| {schedule}, by chain | {' | '.join(cells)} |" in PAGE
    (worse,) = [c for c in evidence.curves("idfl", 10) if c.final_loss > 0.5]
    chains = chain_losses(worse.points, 50_000, 6)
    assert [round(chains[chain], 1) for chain in range(6)] == [0.7, 0.3, 0.8, 0.2, 0.8, 0.2]


def test_mean_losses_against_synchronous_runs_are_those_of_the_published_runs(studies: StudyResults) -> None:
    evidence = studies.judged["mnist"].evidence
    found = {s: mean_text(evidence.measured(s, 10, mean_loss)) for s in ("async", "sync")}  # type: ignore[arg-type]
    assert f"{found['async']} against {found['sync']} at S=10" in TEXT
    everyone = evidence.measured("async", 100, mean_loss)
    for size in (1, 5, 10, 25, 50):
        pairs = zip(evidence.measured("async", size, mean_loss), everyone, strict=True)
        assert {one < other for one, other in pairs} == {size in (10, 25, 50)}


def test_figures_of_cifar10_in_sentences_are_those_of_the_published_runs(studies: StudyResults) -> None:
    evidence = studies.judged["cifar10"].evidence
    deadline = evidence.base.deadline
    (unsteady,) = evidence.curves("async", 2)
    last = [point.loss for point in unsteady.points if point.slot > 0.9 * deadline]
    assert f"between {min(last):.2f} and {max(last):.1f} in the last tenth" in TEXT
    early = []
    for size in (5, 10, 20):
        (curve,) = evidence.curves("async", size)
        early.append(final_loss([point for point in curve.points if point.slot <= 20_000], 20_000))
    assert "({:.2f}, {:.2f} and {:.2f})".format(*early) in TEXT

    def accuracy(schedule: Schedule, size: int) -> str:
        (curve,) = evidence.curves(schedule, size)
        return f"{100 * final_accuracy(curve.points, deadline):.0f}"

    gallery = (ROOT / "docs/gallery/paper.md").read_text(encoding="utf-8")
    whole = accuracy("async", 20)
    assert f"{whole} % with a training loss of {evidence.final('async', 20)[0]:.2f}" in gallery
    every = product(BOTH, evidence.group_sizes)
    low = [accuracy(*run) for run in every if evidence.final(*run)[0] < 0.01]
    assert f"{min(low)} to {max(low)} % test accuracy" in gallery


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
    ends = {label: span(cells) for label, *cells, _ in found.rows}
    shown = rows("Beyond the paper: remedies for stale updates")
    for schedule in BOTH:
        fixed = [ends[f"{schedule} S={size}"] for size in (1, 5, 10)]
        assert shown[schedule] == [*fixed, ends[f"{schedule} S={experiment.shrinking}"]]
        shorter = [ends[f"{schedule} S={size}, steps/d"] for size in (1, 5, 10)]
        assert shown[f"{schedule}, steps/d"] == [*shorter, ""]


def span(cells: Iterable[str]) -> str:
    """The lowest and the highest loss of the seeds that learned, and how many collapsed or diverged."""
    seeds = list(cells)
    learned = sorted((cell for cell in seeds if cell not in {"collapsed", "diverged"}), key=float)
    if not learned:
        return "×"
    text = " to ".join(dict.fromkeys((learned[0], learned[-1])))
    lost = len(seeds) - len(learned)
    return f"{text}, {lost} of {len(seeds)} seeds ×" if lost else text
