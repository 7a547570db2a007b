"""The runs in the report: how each ended, what they have in common, and how to repeat them."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.batch.job import Failure, Run
from slotwise.batch.jobs import FETCH_CIFAR10, can_train
from slotwise.costs import Powers
from slotwise.machine import available_cores, processor
from slotwise.paper.evidence import FolderResults
from slotwise.paper.experiments import DATA_TITLES
from slotwise.report.batch_progress import duration
from slotwise.report.page import Content, Html, Section, code, definitions, details, heading, paragraph, table
from slotwise.runs import RunConfig
from slotwise.runs.config import BEYOND_THE_PAPER

if TYPE_CHECKING:
    from slotwise.paper.reproduction import Manifest

# Options that differ between the runs of a data set, or that only matter with others.
VARIED = {
    *BEYOND_THE_PAPER,
    "schedule",
    "delay",
    "group_size",
    "seed",
    "participation",
    "labels_per_device",
    "concentration",
}


def runs_section(results: FolderResults, runs: Sequence[Run], failures: Sequence[Failure]) -> Section:
    """Return a table of all runs, preceded by those that are not finished and why."""
    reasons = {failure.run.name: failure.reason for failure in failures}
    unfinished = [run for run in runs if results.curve(run).status != "finished"]
    parts: list[Content] = [paragraph(f"{len(runs) - len(unfinished)} of {len(runs)} runs are finished.")]
    if unfinished:
        rows = [(run.name, _reason(results, run, reasons)) for run in unfinished]
        parts += [heading("Not finished"), table(("run", "reason"), rows)]
    headings = ("run", "status", "#rounds", "#slot", "#loss", "#accuracy", "#seconds", "model sha256")
    every_run = table(headings, [_run_row(results, run) for run in runs])
    return Section("runs", "Runs", (*parts, details(f"All {len(runs)} runs", every_run)))


def _reason(results: FolderResults, run: Run, reasons: Mapping[str, str]) -> str:
    status = results.curve(run).status
    if run.name in reasons:
        return reasons[run.name]
    if status == "missing":
        return "not trained yet" if can_train(run) else FETCH_CIFAR10
    if status == "diverged":
        return f"diverged in round {results.description(run).get('diverged_in_round', '?')}"
    return f"{status}; the same command resumes it"


def _run_row(results: FolderResults, run: Run) -> Sequence[Content]:
    curve, description = results.curve(run), results.description(run)
    last = curve.points[-1] if curve.points else None
    figures = (
        (f"{last.round:,}", f"{last.slot:,}", f"{last.loss:.4g}", f"{last.accuracy:.1%}")
        if last
        else ("–",) * 4
    )
    seconds = description.get("seconds")
    digest = str(description.get("model_sha256", ""))[:12]
    time = "–" if seconds is None else f"{seconds:,.0f}"
    return (run.name, curve.status, *figures, time, Html(f"<code>{digest}</code>"))


def making_section(
    path: Path,
    manifest: Manifest,
    results: FolderResults,
    runs: Sequence[Run],
    bases: Sequence[RunConfig],
    powers: Powers | None = None,
) -> Section:
    """Return the commands that repeat the report, the parameters, the machine and the versions."""
    lines = tuple(commands(path, manifest, powers))
    return Section(
        "making",
        "How this was made",
        (
            *((heading("Commands"), code(*lines)) if lines else ()),
            paragraph(
                "Finished runs are kept and interrupted ones resumed; the result does not depend on the "
                "number of workers. The same figures are in figures/ as PNG and PDF, the numbers in "
                "runs/*/history.csv."
            ),
            heading("Parameters"),
            _parameters(manifest, bases),
            heading("Machine and versions"),
            definitions(_machine(results, runs)),
        ),
    )


def commands(path: Path, manifest: Manifest, powers: Powers | None = None) -> Iterator[str]:
    """Yield the commands that train everything the folder was made for."""
    for study, request in manifest.requests.items():
        if study == "schedule":
            continue
        parts = ["slotwise", "reproduce", study, "--out", str(path)]
        parts += ["--quick"] if manifest.quick else []
        parts += ["--seeds", str(request.seeds)] if request.seeds > 1 else []
        parts += ["--deadline", str(request.deadline)] if request.deadline else []
        for field in fields(Powers) if powers else ():
            if (value := getattr(powers, field.name)) != field.default:
                flag = "--slot-seconds" if field.name == "slot_seconds" else f"--power-{field.name}"
                parts += [flag, str(value)]
        yield shlex.join(parts)


def _parameters(manifest: Manifest, bases: Sequence[RunConfig]) -> Html:
    """Return what all runs of a data set have in common; the rest is in the names of the runs."""
    columns = [{**base.options(), "evaluate_every": base.slots_between_evaluations} for base in bases]
    rows = [
        (name, *(_value(column[name]) for column in columns)) for name in columns[0] if name not in VARIED
    ]
    seeds = ("seeds", *(_value(manifest.seeds(base.dataset.data)) for base in bases))
    return table(("parameter", *(DATA_TITLES[base.dataset.data] for base in bases)), [*rows, seeds])


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | range) else str(value)


def _machine(results: FolderResults, runs: Iterable[Run]) -> Iterator[tuple[str, str]]:
    """Yield the machine of the report, and the versions and time of the runs."""
    yield "machine", f"{processor()}, {available_cores()} cores, {platform.system()} {platform.machine()}"
    versions: dict[str, set[str]] = {}
    seconds = 0.0
    for run in runs:
        description = results.description(run)
        seconds += description.get("seconds") or 0
        for name, number in description.get("versions", {}).items():
            versions.setdefault(name, set()).add(number)
    for name, numbers in versions.items():
        if name != "machine":
            yield name, ", ".join(sorted(numbers))
    yield "time of the runs", duration(seconds)
