"""The report of a folder: report.html, and every figure as PNG and PDF. Made from the runs that are there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, runtime_checkable

from slotwise.batch.training import Failure
from slotwise.costs import Powers
from slotwise.files import write_atomically
from slotwise.paper.folder import Manifest, ReproductionFolder
from slotwise.paper.page_content import compose
from slotwise.paper.results import FolderResults, Results
from slotwise.paper.worked_timeline import WorkedTimeline
from slotwise.report import write_gantt
from slotwise.report.curve_figures import draw_figure
from slotwise.report.curve_lines import CurveFigure
from slotwise.report.page import figure_numbers, render


@runtime_checkable
class Drawable(Protocol):
    """An experiment that is shown as a figure of curves."""

    study: str

    def figure(self, results: Results, seeds: Sequence[int]) -> CurveFigure:
        """The curves there are so far."""


def write_report(
    folder: ReproductionFolder,
    manifest: Manifest,
    failures: Sequence[Failure] = (),
    *,
    files: bool = True,
    powers: Powers | None = None,
) -> Path:
    """Write the page and, unless there is no time for them, the figures as files; gives the page's path."""
    results = FolderResults(folder.runs)
    figures = tuple(
        experiment.figure(results, manifest.seeds(experiment.study))
        for experiment in manifest.experiments()
        if isinstance(experiment, Drawable)
    )
    if files:
        _write_figures(folder.path / "figures", [figure for figure in figures if figure.lines])
    page = folder.path / "report.html"
    write_atomically(page, render(compose(folder.path, manifest, results, figures, failures, powers)))
    return page


def _write_figures(folder: Path, figures: Sequence[CurveFigure]) -> None:
    """Drawing takes a second a file, so a figure whose numbers are the same is left as it is."""
    folder.mkdir(exist_ok=True)
    memory = folder / "drawn.json"
    before = _read(memory)
    now = {figure.name: _fingerprint(figure) for figure in figures}
    for figure in figures:
        for kind in ("png", "pdf"):
            path = folder / f"{figure.name}.{kind}"
            if before.get(figure.name) != now[figure.name] or not path.is_file():
                write_atomically(path, draw_figure(figure, kind))
    for timeline in WorkedTimeline().timelines():
        for kind in ("svg", "png"):
            path = folder / f"timeline-{timeline.schedule}.{kind}"
            if not path.is_file():
                write_gantt(timeline, path)
    write_atomically(memory, json.dumps(now, indent=2) + "\n")


def _fingerprint(figure: CurveFigure) -> str:
    content = json.dumps([version("slotwise"), figure.title, figure_numbers(figure)])
    return hashlib.sha256(content.encode()).hexdigest()


def _read(memory: Path) -> dict[str, str]:
    try:
        return dict(json.loads(memory.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
