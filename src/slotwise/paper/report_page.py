"""The report of a reproduction: report.html, and its figures as PNG and PDF, from the runs there are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.batch.job import Failure, Run
from slotwise.batch.jobs import FETCH_CIFAR10, can_train
from slotwise.costs import Powers
from slotwise.files import write_atomically
from slotwise.paper.claims import judge
from slotwise.paper.evidence import Evidence, FolderResults, Results
from slotwise.paper.experiments import (
    BOTH,
    DATA_TITLES,
    PAPER,
    TABLE_1,
    Curves,
    Experiment,
    Readings,
    TableRow,
    Tradeoff,
    worked_timelines,
)
from slotwise.paper.figures import figures_of
from slotwise.paper.report_costs import costs_section
from slotwise.paper.report_runs import making_section, runs_section
from slotwise.paper.report_verdicts import claims_section, readings_section, summary_section
from slotwise.report import write_gantt
from slotwise.report.curves import CurveFigure
from slotwise.report.gantt import compose as compose_picture
from slotwise.report.gantt import whole_window
from slotwise.report.gantt.page_chart import gantt_page
from slotwise.report.page import (
    Content,
    Html,
    Page,
    Section,
    badge,
    curve_figure,
    embedded_page,
    figure_numbers,
    heading,
    paragraph,
    render,
    table,
)
from slotwise.report.plotting import draw_figure

if TYPE_CHECKING:
    from slotwise.paper.reproduction import Manifest

TITLE = "Asynchronous federated learning over a slotted channel, with and without intentional delay"


def write_report(
    path: Path,
    manifest: Manifest,
    failures: Sequence[Failure] = (),
    *,
    figure_files: bool = True,
    powers: Powers | None = None,
) -> Path:
    """Write report.html and, if wanted, the figures as files; return the path of the page."""
    results = FolderResults(path / "runs")
    figures = tuple(
        figure
        for experiment in manifest.experiments()
        for figure in figures_of(experiment, results, manifest.seeds(experiment.study))
    )
    if figure_files:
        _write_figures(path / "figures", [figure for figure in figures if figure.lines])
    page = path / "report.html"
    write_atomically(page, render(_compose(path, manifest, results, figures, failures, powers)))
    return page


def _compose(
    path: Path,
    manifest: Manifest,
    results: FolderResults,
    figures: Sequence[CurveFigure],
    failures: Sequence[Failure],
    powers: Powers | None,
) -> Page:
    runs = manifest.runs()
    mnist, cifar10 = (study_evidence(manifest, results, study) for study in ("mnist", "cifar10"))
    requested = [one for one in (mnist, cifar10) if one.base.dataset.data in manifest.requests]
    bases = [evidence.base for evidence in requested or [mnist]]
    sections = (
        summary_section(requested),
        claims_section((*judge(mnist), *judge(cifar10)), _notes(manifest)),
        _curves_section(figures),
        _table1_section(),
        costs_section(runs, powers),
        _timeline_section(),
        *(
            readings_section(experiment, results, manifest.seeds(experiment.study))
            for experiment in manifest.experiments()
            if isinstance(experiment, Readings)
        ),
        runs_section(results, runs, failures),
        making_section(path, manifest, results, runs, bases, powers),
    )
    shown = tuple(section for section in sections if section.parts)
    drawn = tuple(figure for figure in figures if figure.lines)
    return Page(TITLE, tuple(_lead(manifest, results, runs)), shown, drawn)


def study_evidence(manifest: Manifest, results: Results, study: str) -> Evidence:
    """Return the curves of a study, for the claims about it."""
    experiments = manifest.study(study)
    comparison = _comparison(experiments, study)
    slots = [slots for e in experiments if isinstance(e, Tradeoff) for slots in e.slots]
    return Evidence(
        comparison.config("async", comparison.group_sizes[0]),
        comparison.group_sizes,
        tuple((compute, link) for compute, link in slots if link > 1),
        manifest.seeds(study),
        results,
    )


def _comparison(experiments: Iterable[Experiment], study: str) -> Curves:
    """Return the experiment of a study that compares both schedules."""
    curves = (e for e in experiments if isinstance(e, Curves) and e.study == study)
    return next(one for one in curves if one.schedules == BOTH)


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
            "A quick look: a short deadline and few group sizes. Its verdicts are about these runs only; the "
            "paper's claims are about T=50,000 and six group sizes (slotwise reproduce mnist).",
            "note",
        )


def _notes(manifest: Manifest) -> Iterator[str]:
    """Yield where the runs are not the paper's, and why the claims about CIFAR-10 may be open."""
    for study, request in manifest.requests.items():
        if request.deadline is not None and study in DATA_TITLES:
            paper = f"{_comparison(PAPER, study).deadline:,}"
            yield f"The {DATA_TITLES[study]} runs have T={request.deadline:,}, not the paper's {paper}."
    if "cifar10" not in manifest.requests:
        yield "CIFAR-10 was not requested, so its claims are not decided: slotwise reproduce cifar10."
    elif not all(can_train(run) for e in manifest.study("cifar10") for run in e.runs(0)):
        yield FETCH_CIFAR10


def _curves_section(figures: Sequence[CurveFigure]) -> Section:
    how = paragraph(
        "Point at a curve to read its numbers; drag to zoom in, double-click to zoom out. Click a name to "
        "hide its curve, double-click to see it alone.",
        "quiet",
    )
    parts = tuple(curve_figure(figure) for figure in figures)
    return Section("curves", "Curves", (how, *parts) if parts else ())


def _table1_section() -> Section:
    introduction = (
        "The number of models w<sub>0</sub> to w<sub>K</sub> that each group size completes by the deadline. "
        "The paper calls them training rounds, but counts the initial model."
    )
    parts: list[Content] = [paragraph(Html(introduction))]
    for row in TABLE_1:
        case = f"N={row.devices}, {row.compute_slots} compute slots, r=1, T={row.deadline:,}"
        parts += [heading(f"{DATA_TITLES[row.data]}: {case}"), _row_table(row)]
    return Section("table1", "Table 1", tuple(parts))


def _row_table(row: TableRow) -> Content:
    computed = row.computed()
    equal = ("equal" if computed[size] == printed else "different" for size, printed in row.printed.items())
    return table(
        ("", *(f"#S={size}" for size in row.printed)),
        [
            ("paper", *map(str, row.printed.values())),
            ("slotwise", *map(str, computed.values())),
            ("", *map(badge, equal)),
        ],
    )


def _timeline_section() -> Section:
    introduction = (
        "The paper's example: six devices, two of them send in a round. With intentional delay the rounds "
        "end in the same slots, and the updates are fresher."
    )
    parts: list[Content] = [paragraph(introduction)]
    for timeline in worked_timelines():
        name = "Asynchronous" if timeline.schedule == "async" else "With intentional delay"
        document = gantt_page(compose_picture(timeline, whole_window(timeline)))
        parts += [heading(name), embedded_page(document, f"Timeline: {name}")]
    return Section("timeline", "The worked timeline", tuple(parts))


def _write_figures(folder: Path, figures: Sequence[CurveFigure]) -> None:
    """Draw the figures whose numbers have changed; drawing takes a second per file."""
    folder.mkdir(exist_ok=True)
    record = folder / "drawn.json"
    before = _read_record(record)
    now = {figure.name: _fingerprint(figure) for figure in figures}
    for figure in figures:
        for kind in ("png", "pdf"):
            path = folder / f"{figure.name}.{kind}"
            if before.get(figure.name) != now[figure.name] or not path.is_file():
                write_atomically(path, draw_figure(figure, kind))
    for timeline in worked_timelines():
        for kind in ("svg", "png"):
            path = folder / f"timeline-{timeline.schedule}.{kind}"
            if not path.is_file():
                write_gantt(timeline, path)
    write_atomically(record, json.dumps(now, indent=2) + "\n")


def _fingerprint(figure: CurveFigure) -> str:
    content = json.dumps([version("slotwise"), figure.title, figure_numbers(figure)])
    return hashlib.sha256(content.encode()).hexdigest()


def _read_record(path: Path) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
