"""The report of a reproduction: report.html, results.md, and figures as PNG and PDF."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.base.files import write_atomically, write_document
from slotwise.batch.job import Failure
from slotwise.batch.jobs import FETCH_CIFAR10, can_train
from slotwise.data import TITLES
from slotwise.paper.beginnings import (
    Beginning,
    beginnings_figure,
    beginnings_section,
    beginnings_sentence,
    find_beginnings,
)
from slotwise.paper.evidence import Results
from slotwise.paper.experiments import PAPER, TABLE_1, worked_timelines
from slotwise.paper.headline import idea, verdicts
from slotwise.paper.published import PublishedResults, published_manifest
from slotwise.paper.report_runs import costs_section, making_section, published_section, runs_section
from slotwise.paper.report_verdicts import (
    readings_section,
    remedies_section,
    statements_section,
    summary_section,
)
from slotwise.paper.reproduction import Manifest
from slotwise.paper.results_markdown import results_markdown
from slotwise.paper.study_results import StudyResults
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
    from matplotlib.figure import Figure

# Of figure files: up to three panels side by side.
FIGURE_WIDTH, ROW_HEIGHT, PANELS_IN_ROW = 10.0, 3.6, 3  # inches
DOTS_PER_INCH = 200
TITLE = "Intentional delay in federated learning over a slotted channel"
HOW = (
    "One server and N devices share a slotted channel. In a round S devices send their updates in turn; the "
    "server averages them and broadcasts the new model. Asynchronous devices (async) train on the model they "
    "receive right after sending, and send when their turn comes again: the smaller S, the older (staler) "
    "the model they trained on. With intentional delay (idfl) a device waits for a later model, as long as "
    "that costs no slot. Below is the paper's example: six devices, two of which send in a round. The rounds "
    "end in the same slots, and with the delay the updates are fresher."
)


def write_report(
    path: Path,
    manifest: Manifest,
    failures: Sequence[Failure] = (),
    *,
    figure_files: bool = True,
    powers: Powers | None = None,
) -> Path:
    """Write report.html, results.md and, if wanted, the figures as files; return the path of the page.

    A quick look trains the beginnings of published runs. Its page shows the published runs, with the
    beginnings on top, and it has no results.md.
    """
    trained = StudyResults(manifest, Results(path / "runs"))
    shown = trained
    beginnings: tuple[Beginning, ...] = ()
    if manifest.quick:
        shown = StudyResults(published_manifest(), PublishedResults())
        beginnings = find_beginnings(manifest, trained.results, shown.results)
    elif trained.judged or trained.readings:
        text = results_markdown(tuple(trained.judged.values()), trained.readings, trained.remedies)
        write_atomically(path / "results.md", text)
    repeated = [beginnings_figure(beginnings)] if beginnings else []
    if figure_files:
        _write_figures(path / "figures", (*shown.figures[:1], *repeated) if manifest.quick else shown.figures)
    sections = (
        *(beginnings_section(beginnings, figure) for figure in repeated),
        *_result_sections(shown, powers),
        runs_section(trained, failures),
        *([published_section(shown)] if manifest.quick else []),
        making_section(path, trained, shown.paper_cases or (shown.evidence("mnist"),), powers),
    )
    lead = (*_progress(trained), *_lead(shown, beginnings))
    filled = tuple(section for section in sections if section.parts)
    page = path / "report.html"
    write_atomically(page, page_parts.render(Page(TITLE, lead, filled, (*shown.figures, *repeated))))
    return page


def _lead(shown: StudyResults, beginnings: Sequence[Beginning]) -> Iterator[Content]:
    """Yield the idea, the first figure, what this machine computed, and whether the statements hold."""
    judged = [one for study, one in shown.judged.items() if study in TITLES]
    yield from idea(judged)
    yield from map(page_parts.curve_figure, shown.figures[:1])
    if beginnings:
        yield beginnings_sentence(beginnings)
    if judged:
        yield verdicts(judged)


def _progress(trained: StudyResults) -> Iterator[Content]:
    """Yield how many runs are finished, if some are not."""
    ended = sum(trained.results.curve(run).has_ended for run in trained.runs)
    if ended < len(trained.runs):
        yield paragraph(f"{ended} of {len(trained.runs)} runs have ended; the same command resumes.", "note")


def _result_sections(shown: StudyResults, powers: Powers | None) -> Iterator[Section]:
    """Yield what the runs show; the schedule first, because everything else follows from it."""
    yield _timeline_section()
    yield _table1_section()
    yield statements_section(tuple(shown.judged.values()), _notes(shown))
    yield summary_section(shown.paper_cases)
    yield _curves_section(shown.figures[1:])
    yield costs_section(shown.runs, powers)
    if shown.readings:
        yield readings_section(shown.readings)
    yield from map(remedies_section, shown.remedies)


def _notes(shown: StudyResults) -> Iterator[str]:
    """Yield where the runs are not the paper's, and why the claims about CIFAR-10 may be open."""
    for study, request in shown.manifest.requests.items():
        if request.deadline is not None and study in TITLES:
            paper = next(e.deadline for e in PAPER if e.study == study)  # the same in all of a study
            yield f"The {TITLES[study]} runs have T={request.deadline:,}, not the paper's {paper:,}."
    if "cifar10" not in shown.manifest.requests:
        yield "The paper's CIFAR-10 case was not requested: slotwise reproduce cifar10."
    elif not all(can_train(run) or shown.results.curve(run).has_ended for run in shown.runs):
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
    parts: list[Content] = [paragraph(HOW)]
    for timeline in worked_timelines():
        name = "Asynchronous" if timeline.schedule == "async" else "With intentional delay"
        drawn = gantt_file(compose_picture(timeline, whole_window(timeline)), "svg")
        parts += [heading(name), page_parts.picture(drawn, f"Timeline: {name}")]
    return Section("timeline", "The schedule, slot by slot", tuple(parts))


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
        content = json.dumps(
            [
                version("slotwise"),
                FIGURE_WIDTH,
                ROW_HEIGHT,
                DOTS_PER_INCH,
                figure.title,
                page_parts.figure_numbers(figure),
            ]
        )
        now[figure.name] = hashlib.sha256(content.encode()).hexdigest()
        for path in (folder / f"{figure.name}.{kind}" for kind in ("png", "pdf")):
            if before.get(figure.name) != now[figure.name] or not path.is_file():
                write_atomically(path, save_figure(_plotted(figure), path.suffix[1:], DOTS_PER_INCH))
    for timeline in worked_timelines():
        for path in (folder / f"timeline-{timeline.schedule}.{kind}" for kind in ("svg", "png")):
            if not path.is_file():
                write_gantt(timeline, path)
    write_document(record, now)


def _plotted(figure: CurveFigure) -> Figure:
    """Return a figure in a size and with lines that suit its number of panels."""
    import matplotlib as mpl  # noqa: PLC0415  (slow to import)

    rows = -(-len(figure.panels) // PANELS_IN_ROW)
    size = (FIGURE_WIDTH, ROW_HEIGHT * (1 if rows == 1 else 0.9 * rows))
    look: dict[Any, Any] = {"figure.figsize": size, "axes.grid": True, "grid.alpha": 0.3}
    with mpl.rc_context(look | {"lines.linewidth": 1.3, "lines.markersize": 5}):
        return plot_figure(figure)
