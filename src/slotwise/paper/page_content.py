"""What the report says: from the curves of a folder to the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from slotwise.batch.job import Run
from slotwise.batch.training import FETCH_CIFAR10, Failure, can_train
from slotwise.costs import Powers
from slotwise.paper.catalogue import PAPER, all_runs
from slotwise.paper.claims import judge_cifar10, judge_mnist
from slotwise.paper.comparison import Comparison
from slotwise.paper.evidence import Evidence
from slotwise.paper.final_figures import final_figures
from slotwise.paper.folder import Manifest
from slotwise.paper.page_claims import claims_section
from slotwise.paper.page_runs import making_section, runs_section
from slotwise.paper.page_spending import spending_section
from slotwise.paper.readings import Reading, Readings
from slotwise.paper.results import FolderResults, Results
from slotwise.paper.table1 import Row, TableOne
from slotwise.paper.tradeoff import Tradeoff
from slotwise.paper.worked_timeline import WorkedTimeline
from slotwise.report.curve_lines import CurveFigure
from slotwise.report.gantt_page import gantt_page
from slotwise.report.page import (
    Content,
    Html,
    Page,
    Section,
    badge,
    curve_figure,
    embedded_page,
    heading,
    paragraph,
    table,
)
from slotwise.report.picture import compose as compose_picture
from slotwise.report.window import whole_window

TITLE = "Asynchronous federated learning over a slotted channel, with and without intentional delay"


def compose(
    path: Path,
    manifest: Manifest,
    results: FolderResults,
    figures: Sequence[CurveFigure],
    failures: Sequence[Failure],
    powers: Powers | None = None,
) -> Page:
    """The page of a folder; with joules, if powers are known."""
    runs = _runs(manifest)
    mnist = study_evidence(manifest, results, "mnist")
    cifar10 = study_evidence(manifest, results, "cifar10")
    asked = [evidence for evidence in (mnist, cifar10) if evidence.base.dataset.data in manifest.requests]
    judgements = (*judge_mnist(mnist), *judge_cifar10(cifar10))
    sections = (
        Section("short", "In short", tuple(part for e in asked for part in final_figures(e))),
        claims_section(judgements, _notes(manifest)),
        _curves_section(figures),
        _table1_section(),
        spending_section(runs, powers),
        _timeline_section(),
        *_readings_section(manifest, results),
        runs_section(results, runs, failures),
        making_section(
            path, manifest, results, runs, [evidence.base for evidence in asked or [mnist]], powers
        ),
    )
    drawn = tuple(figure for figure in figures if figure.lines)
    shown = tuple(section for section in sections if section.parts)
    return Page(TITLE, tuple(_lead(manifest, results, runs)), shown, drawn)


def study_evidence(manifest: Manifest, results: Results, study: str) -> Evidence:
    """The curves of a study, for the claims about it."""
    experiments = manifest.study(study)
    comparison = next(e for e in experiments if isinstance(e, Comparison))
    tradeoffs = [e for e in experiments if isinstance(e, Tradeoff)]
    slow = tuple(pair for e in tradeoffs for pair in e.slots if pair[1] > 1)
    base = comparison.parameters("async", comparison.group_sizes[0], 0)
    return Evidence(base, comparison.group_sizes, slow, manifest.seeds(study), results)


def _runs(manifest: Manifest) -> tuple[Run, ...]:
    """Everything asked for, one study after the other."""
    return tuple(
        run
        for study in manifest.requests
        for run in all_runs([e for e in manifest.experiments() if e.study == study], manifest.seeds(study))
    )


def _lead(manifest: Manifest, results: Results, runs: Sequence[Run]) -> Iterator[Content]:
    yield paragraph(
        "One server and N devices share a slotted channel. In a round S devices send their updates in "
        "turn; the server averages them and broadcasts the new model. Asynchronous devices (async) train on "
        "the model they receive right after sending, and send when their turn comes again: the smaller S, "
        "the older (staler) the model they trained on. With intentional delay (idfl) a device waits for a "
        "later model, as long as that costs no slot."
    )
    finished = sum(results.curve(run).finished for run in runs)
    state = f"{finished} of {len(runs)} runs finished."
    yield paragraph(f"{state} Made with slotwise; everything on this page is in this one file.", "quiet")
    if manifest.quick:
        yield paragraph(
            "A quick look: a short deadline and few group sizes. Its verdicts speak of these runs; the "
            "paper's claims are about T=50,000 and six group sizes (slotwise reproduce mnist).",
            "note",
        )


def _notes(manifest: Manifest) -> Iterator[str]:
    """Where the runs are not the paper's, and why CIFAR-10 may be missing."""
    for study, request in manifest.requests.items():
        if request.deadline is not None and study in {"mnist", "cifar10"}:
            title = {"mnist": "MNIST", "cifar10": "CIFAR-10"}[study]
            yield f"The {title} runs have T={request.deadline:,}, not the paper's {_paper_deadline(study)}."
    if "cifar10" not in manifest.requests:
        yield "CIFAR-10 was not asked for, so its claims are not decided: slotwise reproduce cifar10."
    elif not all(can_train(run) for e in manifest.study("cifar10") for run in e.runs(0)):
        yield FETCH_CIFAR10


def _paper_deadline(study: str) -> str:
    comparison = next(e for e in PAPER if isinstance(e, Comparison) and e.study == study)
    return f"{comparison.deadline:,}"


def _curves_section(figures: Sequence[CurveFigure]) -> Section:
    how = paragraph(
        "Point at a curve to read its numbers; drag to zoom in, double-click to zoom out. Click a name to "
        "hide its curve, double-click to see it alone.",
        "quiet",
    )
    parts = tuple(curve_figure(figure) for figure in figures)
    return Section("curves", "Curves", (how, *parts) if parts else ())


def _table1_section() -> Section:
    words = (
        "The models w<sub>0</sub> to w<sub>K</sub> that each group size completes by the deadline. The paper "
        "calls them training rounds, but counts the initial model."
    )
    parts: list[Content] = [paragraph(Html(words))]
    for row in TableOne().rows():
        parts += [heading(_row_title(row)), _row_table(row)]
    return Section("table1", "Table 1", tuple(parts))


def _row_title(row: Row) -> str:
    return f"{row.title}: N={row.devices}, {row.compute_slots} compute slots, r=1, T={row.deadline:,}"


def _row_table(row: Row) -> Content:
    cells = row.cells()
    return table(
        ("", *(f"#S={cell.group_size}" for cell in cells)),
        [
            ("paper", *(f"{cell.paper}" for cell in cells)),
            ("slotwise", *(f"{cell.ours}" for cell in cells)),
            ("", *(badge("equal" if cell.equal else "different") for cell in cells)),
        ],
    )


def _timeline_section() -> Section:
    parts: list[Content] = []
    for timeline in WorkedTimeline().timelines():
        name = "Asynchronous" if timeline.schedule == "async" else "With intentional delay"
        document = gantt_page(compose_picture(timeline, whole_window(timeline)))
        parts += [heading(name), embedded_page(document, f"Timeline: {name}")]
    return Section("timeline", "The worked timeline", tuple(parts))


def _readings_section(manifest: Manifest, results: Results) -> Iterator[Section]:
    asked = [e for e in manifest.experiments() if isinstance(e, Readings)]
    for experiment in asked:
        rows = [_reading_row(manifest, results, experiment, reading) for reading in experiment.readings()]
        sizes = ", ".join(map(str, experiment.group_sizes))
        yield Section(
            "readings",
            "The readings",
            (
                paragraph(
                    "The paper leaves three things open: the scale of the inputs, whether a local update is "
                    "the sum or the mean of its gradients, and the width of the network. Which reading gives "
                    f"which claim, at T={experiment.deadline:,} with S={sizes}; the first line is the "
                    "default everywhere else on this page, whatever comes out here."
                ),
                table(("inputs", "update", "network", *(f"claim {n}" for n in (1, 2, 3, 4, 6))), rows),
            ),
        )


def _reading_row(
    manifest: Manifest, results: Results, experiment: Readings, reading: Reading
) -> Sequence[Content]:
    base = experiment.parameters(reading, "async", experiment.group_sizes[0], experiment.slots[0], 0)
    slow = tuple(pair for pair in experiment.slots if pair[1] > 1)
    evidence = Evidence(base, experiment.group_sizes, slow, manifest.seeds("readings"), results)
    verdicts = (badge(judgement.verdict) for judgement in judge_mnist(evidence))
    channels, hidden = reading.network
    network = "–".join(map(str, (*channels, *hidden)))
    inputs = {"standard": "standardised", "unit": "0 to 1"}[reading.input_scale]
    return inputs, reading.update, network, *verdicts
