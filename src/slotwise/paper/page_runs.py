"""The runs on the page: how each ended, what they have in common, and how to make them again."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slotwise.batch.job import Run
from slotwise.batch.training import FETCH_CIFAR10, Failure, can_train
from slotwise.costs import Powers
from slotwise.paper.folder import Manifest
from slotwise.paper.results import FolderResults
from slotwise.report.page import Content, Html, Section, code, definitions, details, heading, paragraph, table
from slotwise.runs import RunConfig
from slotwise.runs.config import BEYOND_THE_PAPER


def runs_section(results: FolderResults, runs: Sequence[Run], failures: Sequence[Failure]) -> Section:
    """Every run, and first those that did not end well."""
    unwell = [run for run in runs if results.curve(run).status != "finished"]
    reasons = {failure.run.name: failure.reason for failure in failures}
    troubles = [(run.name, _trouble(results, run, reasons)) for run in unwell]
    finished = f"{len(runs) - len(unwell)} of {len(runs)} runs are finished."
    headings = ("run", "status", "#rounds", "#slot", "#loss", "#accuracy", "#seconds", "model sha256")
    every_run = table(headings, [_row(results, run) for run in runs])
    parts: list[Content] = [paragraph(finished)]
    if troubles:
        parts += [heading("Not finished"), table(("run", "why"), troubles)]
    return Section("runs", "Runs", (*parts, details(f"All {len(runs)} runs", every_run)))


def making_section(
    path: Path,
    manifest: Manifest,
    results: FolderResults,
    runs: Sequence[Run],
    bases: Sequence[RunConfig],
    powers: Powers | None = None,
) -> Section:
    """Parameters, machine and versions, and the commands."""
    return Section(
        "making",
        "How this was made",
        (
            *_again(path, manifest, powers),
            paragraph(
                "Finished runs are kept, broken ones resumed; the result does not depend on the number of "
                "workers. The same figures are in figures/ as PNG and PDF, the numbers in "
                "runs/*/history.csv."
            ),
            heading("Parameters"),
            _parameters(manifest, bases),
            heading("Machine and versions"),
            definitions(_machine(results, runs)),
        ),
    )


def _again(path: Path, manifest: Manifest, powers: Powers | None) -> Iterator[Html]:
    lines = tuple(commands(path, manifest, powers))
    if lines:
        yield heading("Again")
        yield code(*lines)


def commands(path: Path, manifest: Manifest, powers: Powers | None = None) -> Iterator[str]:
    """What was asked for, as commands."""
    for study, request in manifest.requests.items():
        if study == "schedule":
            continue
        words = ["slotwise", "reproduce", study, "--out", str(path)]
        words += ["--quick"] if manifest.quick else []
        words += ["--seeds", str(request.seeds)] if request.seeds > 1 else []
        words += ["--deadline", str(request.deadline)] if request.deadline else []
        yield shlex.join([*words, *_power_flags(powers)])


def _power_flags(powers: Powers | None) -> Iterator[str]:
    for name, value in asdict(powers).items() if powers else ():
        yield "--slot-seconds" if name == "slot_seconds" else f"--power-{name}"
        yield str(value)


def _trouble(results: FolderResults, run: Run, reasons: dict[str, str]) -> str:
    if run.name in reasons:
        return reasons[run.name]
    status = results.curve(run).status
    if status == "missing":
        return "not trained yet" if can_train(run) else FETCH_CIFAR10
    if status == "diverged":
        return f"diverged in round {results.description(run).get('diverged_in_round', '?')}"
    return f"{status}; the same command goes on with it"


def _row(results: FolderResults, run: Run) -> Sequence[Content]:
    curve, description = results.curve(run), results.description(run)
    last = curve.points[-1] if curve.points else None
    figures = (
        (f"{last.round:,}", f"{last.slot:,}", f"{last.loss:.4g}", f"{last.accuracy:.1%}")
        if last
        else ("–",) * 4
    )
    seconds = description.get("seconds")
    digest = str(description.get("model_sha256", ""))[:12]
    return (
        run.name,
        curve.status,
        *figures,
        "–" if seconds is None else f"{seconds:,.0f}",
        Html(f"<code>{digest}</code>"),
    )


def _parameters(manifest: Manifest, bases: Sequence[RunConfig]) -> Html:
    """What all runs of a data set have in common; the rest is in the runs' names."""
    varied = {
        *BEYOND_THE_PAPER,
        "schedule",
        "delay",
        "group_size",
        "seed",
        "participation",
        "labels_per_device",
        "concentration",
    }
    names = [name for name in bases[0].options() if name not in varied]
    rows = [(name, *(_value(name, base) for base in bases)) for name in names]
    seeds = ("seeds", *(", ".join(map(str, manifest.seeds(base.dataset.data))) for base in bases))
    titles = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
    return table(("parameter", *(titles[base.dataset.data] for base in bases)), [*rows, seeds])


def _value(name: str, base: RunConfig) -> str:
    if name == "evaluate_every":
        return str(base.slots_between_evaluations)
    value: Any = getattr(base, name)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _machine(results: FolderResults, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Of the report, and of the runs where they differ."""
    cores = len(os.sched_getaffinity(0))
    yield "machine", f"{_processor()}, {cores} cores, {platform.system()} {platform.machine()}"
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, number in results.description(run).get("versions", {}).items():
            found.setdefault(name, set()).add(number)
    for name, numbers in found.items():
        if name != "machine":
            yield name, ", ".join(sorted(numbers))
    seconds = sum(results.description(run).get("seconds") or 0 for run in runs)
    yield "time of the runs", f"{seconds / 60:,.0f} minutes in all"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
