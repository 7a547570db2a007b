"""The report of a reproduction: report.html, results.md, and figures as PNG and PDF."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.base.files import write_atomically, write_document
from slotwise.batch.job import Failure, Run
from slotwise.batch.jobs import FETCH_CIFAR10, can_train
from slotwise.data import TITLES
from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.evidence import Evidence, Results
from slotwise.paper.experiments import (
    BOTH,
    PAPER,
    TABLE_1,
    Curves,
    Readings,
    Remedies,
    Tradeoff,
    all_runs,
    worked_timelines,
)
from slotwise.paper.figures import figures_of
from slotwise.paper.report_runs import costs_section, making_section, runs_section
from slotwise.paper.report_verdicts import (
    REMEDIES,
    Judged,
    RemediesTable,
    readings_section,
    remedies_section,
    remedies_table,
    statement_rows,
    statements_section,
    summary_section,
)
from slotwise.report import page as page_parts
from slotwise.report import write_gantt
from slotwise.report.curves import CurveFigure
from slotwise.report.gantt import compose as compose_picture
from slotwise.report.gantt import whole_window
from slotwise.report.gantt.figure_chart import gantt_file
from slotwise.report.page import Content, Html, Page, Section, badge, heading, paragraph, table
from slotwise.report.plotting import plot_figure, save_figure
from slotwise.schedule.costs import Powers

if TYPE_CHECKING:
    from slotwise.paper.reproduction import Manifest

TITLE = "Asynchronous federated learning over a slotted channel, with and without intentional delay"
MARKDOWN = f"""\
# Results of a reproduction

Written by `slotwise reproduce` from the histories in `runs/`; do not edit. report.html has the same figures
with curves, rules and definitions.

Losses are training losses, accuracies are test accuracies: medians over the last tenth of the slots, then
the mean of the seeds that did not collapse, with the lowest and the highest in brackets. d is the staleness
of the updates, in rounds. A collapsed run has a final accuracy under {COLLAPSED:.0%}, or diverged."""
SAME_TERMS = """\
All readings with the same group sizes, slow links and seed, so that they can be compared with each other.
With fewer group sizes and seeds, (a) and (c) can have other verdicts here than above."""


def write_report(
    path: Path,
    manifest: Manifest,
    failures: Sequence[Failure] = (),
    *,
    figure_files: bool = True,
    powers: Powers | None = None,
) -> Path:
    """Write report.html, results.md and, if wanted, the figures as files; return the path of the page."""
    results, runs, experiments = Results(path / "runs"), manifest.runs(), manifest.experiments()
    figures = [f for e in experiments for f in figures_of(e, results, manifest.seeds(e.study))]
    drawn = tuple(figure for figure in figures if figure.lines)
    if figure_files:
        _write_figures(path / "figures", drawn)
    mnist, cifar10 = (_evidence(manifest, results, study) for study in ("mnist", "cifar10"))
    requested = [one for one in (mnist, cifar10) if one.base.dataset.data in manifest.requests]
    judged, readings = tuple(_judged(manifest, results)), tuple(_readings(manifest, results))
    remedies = [
        remedies_table(experiment, results, manifest.seeds(experiment.study))
        for experiment in experiments
        if isinstance(experiment, Remedies)
    ]
    sections = (
        summary_section(requested),
        statements_section(judged, _notes(manifest)),
        _curves_section(figures),
        _table1_section(),
        costs_section(runs, powers),
        _timeline_section(),
        *([readings_section(readings)] if readings else []),
        *map(remedies_section, remedies),
        runs_section(results, runs, failures),
        making_section(path, manifest, results, runs, [one.base for one in requested or [mnist]], powers),
    )
    shown = tuple(section for section in sections if section.parts)
    if judged or readings:
        write_atomically(path / "results.md", results_markdown(judged, readings, remedies))
    page = path / "report.html"
    lead = tuple(_lead(manifest, results, runs))
    write_atomically(page, page_parts.render(Page(TITLE, lead, shown, drawn)))
    return page


def _evidence(manifest: Manifest, results: Results, study: str) -> Evidence:
    """Return the curves of a study, for the claims about it."""
    experiments = manifest.study(study)
    comparison = next(e for e in experiments if isinstance(e, Curves) and e.schedules == BOTH)
    tradeoffs = [experiment for experiment in experiments if isinstance(experiment, Tradeoff)]
    slow = tuple(slots for tradeoff in tradeoffs for slots in tradeoff.slots if slots[1] > 1)
    base, seeds = comparison.config("async", comparison.group_sizes[0]), manifest.seeds(study)
    requested = [experiment for experiment in manifest.experiments() if experiment.study == study]
    # While later seeds are being trained, the verdicts are those of the seeds that are complete.
    ended = results.ended_seeds(lambda seed: all_runs(requested, [seed]), seeds)
    return Evidence(base, comparison.group_sizes, slow, ended, results, len(seeds))


def _judged(manifest: Manifest, results: Results) -> Iterator[Judged]:
    """Yield the runs of every study that was requested."""
    for experiment in manifest.experiments():
        if isinstance(experiment, Curves) and experiment.schedules == BOTH:
            yield Judged(experiment.reading, _evidence(manifest, results, experiment.study))


def _readings(manifest: Manifest, results: Results) -> Iterator[Judged]:
    """Yield the runs of every reading at the same group sizes."""
    for experiment in manifest.experiments():
        if isinstance(experiment, Readings):
            seeds, sizes = manifest.seeds(experiment.study), experiment.group_sizes
            for reading in experiment.readings:
                base = experiment.under(reading).config("async", sizes[0])
                yield Judged(reading, Evidence(base, sizes, experiment.slots, seeds, results))


def _lead(manifest: Manifest, results: Results, runs: Sequence[Run]) -> Iterator[Content]:
    yield paragraph(
        "One server and N devices share a slotted channel. In a round S devices send their updates in "
        "turn; the server averages them and broadcasts the new model. Asynchronous devices (async) train on "
        "the model they receive right after sending, and send when their turn comes again: the smaller S, "
        "the older (staler) the model they trained on. With intentional delay (idfl) a device waits for a "
        "later model, as long as that costs no slot."
    )
    statuses = [results.curve(run).status for run in runs]
    diverged = f", {statuses.count('diverged')} diverged" if "diverged" in statuses else ""
    state = f"{statuses.count('finished')} of {len(runs)} runs finished{diverged}."
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
        if request.deadline is not None and study in TITLES:
            paper = next(e.deadline for e in PAPER if e.study == study)  # the same in all of a study
            yield f"The {TITLES[study]} runs have T={request.deadline:,}, not the paper's {paper:,}."
    if "cifar10" not in manifest.requests:
        yield "The paper's CIFAR-10 case was not requested: slotwise reproduce cifar10."
    elif not all(can_train(run) for e in manifest.study("cifar10") for run in e.runs(0)):
        yield FETCH_CIFAR10


def _curves_section(figures: Sequence[CurveFigure]) -> Section:
    how = paragraph(
        "Point at a curve to read its numbers; drag to zoom in, double-click to zoom out. Click a name to "
        "hide its curve, double-click to see it alone.",
        "quiet",
    )
    return Section("curves", "Curves", (how, *map(page_parts.curve_figure, figures)) if figures else ())


def _table1_section() -> Section:
    introduction = (
        "The number of models w<sub>0</sub> to w<sub>K</sub> that each group size completes by the deadline. "
        "The paper calls them training rounds, but counts the initial model."
    )
    parts: list[Content] = [paragraph(Html(introduction))]
    for row in TABLE_1:
        case = f"N={row.devices}, {row.compute_slots} compute slots, r=1, T={row.deadline:,}"
        computed = row.computed()
        equal = ["equal" if computed[size] == number else "different" for size, number in row.printed.items()]
        rows: list[Sequence[Content]] = [
            ("paper", *map(str, row.printed.values())),
            ("slotwise", *map(str, computed.values())),
            ("", *map(badge, equal)),
        ]
        headings = ("", *(f"#S={size}" for size in row.printed))
        parts += [heading(f"{TITLES[row.data]}: {case}"), table(headings, rows)]
    return Section("table1", "Table 1", tuple(parts))


def _timeline_section() -> Section:
    introduction = (
        "The paper's example: six devices, two of them send in a round. With intentional delay the rounds "
        "end in the same slots, and the updates are fresher."
    )
    parts: list[Content] = [paragraph(introduction)]
    for timeline in worked_timelines():
        name = "Asynchronous" if timeline.schedule == "async" else "With intentional delay"
        drawn = gantt_file(compose_picture(timeline, whole_window(timeline)), "svg")
        parts += [heading(name), page_parts.picture(drawn, f"Timeline: {name}")]
    return Section("timeline", "The worked timeline", tuple(parts))


def _write_figures(folder: Path, figures: Sequence[CurveFigure]) -> None:
    """Draw the figures whose numbers have changed; drawing takes a second per file."""
    folder.mkdir(exist_ok=True)
    record = folder / "drawn.json"
    try:
        before = dict(json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, or damaged
        before = {}
    now = {}
    for figure in figures:
        content = json.dumps([version("slotwise"), figure.title, page_parts.figure_numbers(figure)])
        now[figure.name] = hashlib.sha256(content.encode()).hexdigest()
        for path in (folder / f"{figure.name}.{kind}" for kind in ("png", "pdf")):
            if before.get(figure.name) != now[figure.name] or not path.is_file():
                write_atomically(path, save_figure(plot_figure(figure), path.suffix[1:]))
    for timeline in worked_timelines():
        for path in (folder / f"timeline-{timeline.schedule}.{kind}" for kind in ("svg", "png")):
            if not path.is_file():
                write_gantt(timeline, path)
    write_document(record, now)


def results_markdown(
    judged: Sequence[Judged], readings: Sequence[Judged], remedies: Sequence[RemediesTable]
) -> str:
    """Return the tables of every study, of all readings on the same terms, and of the remedies."""
    lines = [MARKDOWN]
    for data in dict.fromkeys(one.data for one in judged):
        own = [one for one in judged if one.data == data]
        lines += ["", f"## {TITLES[data]}: the paper's statements", "", *_statements(own)]
        for one in own:
            lines += ["", f"## {TITLES[data]}, {one.label}: {one.reading.title}", "", *_details(one)]
    if readings:
        lines += ["", "## The readings", "", SAME_TERMS, "", *_statements(readings)]
        for one in readings:
            lines += ["", f"### {one.label} {one.reading.title}", "", *_details(one)]
    for found in remedies:
        lines += ["", "## Remedies", "", REMEDIES, "", _row(found.headings), _rule(len(found.headings))]
        lines += [*map(_row, found.rows), "", found.verdict]
    return "\n".join(lines) + "\n"


def _details(one: Judged) -> Iterator[str]:
    """Yield the final losses of a reading, and the figures behind its verdicts."""
    yield from (f"{one.case}; `runs/{one.evidence.histories}`.", "", *_finals(one.evidence), "")
    for found in one.judgements:
        yield f"- {found.statement.name}, {found.verdict}: {'; '.join(found.figures)}"


def _statements(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a table with a row for each statement and a column for each reading and case."""
    yield _row(["", "statement", *(one.label for one in judged)])
    yield _rule(2 + len(judged))
    yield from map(_row, statement_rows(judged, lambda one: one.verdict))


def _finals(evidence: Evidence) -> Iterator[str]:
    """Yield a table of final losses and accuracies with a column for each group size."""
    sizes = evidence.group_sizes
    yield _row(["", *(f"S={size}" for size in sizes)])
    yield _rule(1 + len(sizes))
    cells = {schedule: [evidence.final_texts(schedule, s, "not trained") for s in sizes] for schedule in BOTH}
    for place, title in enumerate(("loss", "accuracy", "d")):
        for schedule in BOTH:
            yield _row([f"{schedule}, {title}", *(texts[place] for texts in cells[schedule])])


def _row(cells: Sequence[Content]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
