"""The runs in the report: how each ended, how to repeat them, and their use of the channel and of devices."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path

from slotwise.batch.job import Failure, Run
from slotwise.batch.jobs import FETCH_CIFAR10, can_train
from slotwise.data import TITLES, DataName
from slotwise.paper.evidence import Evidence, Results
from slotwise.paper.reproduction import Manifest
from slotwise.paper.study_results import StudyResults
from slotwise.report.number_text import loss_text
from slotwise.report.page import Content, Html, Section, code, definitions, details, heading, paragraph, table
from slotwise.report.progress import duration
from slotwise.runs import RunConfig
from slotwise.runs.config import beyond_the_paper
from slotwise.schedule.costs import Costs, Powers

# Options that differ between the runs of a data set, or that only matter with others.
VARIED = {
    *beyond_the_paper(),
    *("schedule", "delay", "group_size", "seed", "participation", "labels_per_device", "concentration"),
}
COSTS = (
    "Uplinks, broadcasts and unused are shares of the slots of the channel until the last round ends. Air "
    "slots are those in which a device sends. Computing and waiting are shares of the time of all devices "
    "together; a device that neither computes, sends nor receives waits for the channel or for a model. "
    "If the free delay is 0, idfl is the same run as async and listed once, as async."
)
COST_HEADINGS: tuple[str, ...] = (
    *("schedule", "#S", "#compute slots", "#r", "#uplinks", "#broadcasts", "#unused"),
    *("#air slots per device", "#computing", "#waiting"),
)


def runs_section(trained: StudyResults, failures: Sequence[Failure]) -> Section:
    """Return a table of all runs, preceded by those that are not finished and why."""
    reasons, results = {failure.run.name: failure.reason for failure in failures}, trained.results
    unfinished = [run for run in trained.runs if results.curve(run).status != "finished"]
    number = len(trained.runs)
    parts: list[Content] = [paragraph(f"{number - len(unfinished)} of {number} runs are finished.")]
    if unfinished:
        rows = [(run.name, reasons.get(run.name) or _reason(results, run)) for run in unfinished]
        parts += [heading("Not finished"), table(("run", "reason"), rows)]
    return Section("runs", "Runs", (*parts, _every_run(trained)))


def published_section(shown: StudyResults) -> Section:
    """Return a table of the published runs, and the commands that train them."""
    text = "The full-length runs that this page shows; slotwise contains their evaluations."
    seconds = sum(shown.results.curve(run).description["seconds"] for run in shown.runs)
    lines = tuple(_commands(Path("runs/paper"), shown.manifest, None))
    took = paragraph(f"They took {duration(seconds)} on a machine with two cores. To train them again:")
    return Section(
        "published", "The published runs", (paragraph(text), took, code(*lines), _every_run(shown))
    )


def _every_run(studies: StudyResults) -> Html:
    headings = ("run", "status", "#rounds", "#slot", "#loss", "#accuracy", "#seconds", "model sha256")
    rows = [_run_row(studies.results, run) for run in studies.runs]
    return details(f"All {len(rows)} runs", table(headings, rows))


def _reason(results: Results, run: Run) -> str:
    curve = results.curve(run)
    if curve.status == "missing":
        return "not trained yet" if can_train(run) else FETCH_CIFAR10
    if curve.status == "diverged":
        return f"diverged in round {curve.description.get('diverged_in_round', '?')}"
    return f"{curve.status}; the same command resumes it"


def _run_row(results: Results, run: Run) -> Sequence[Content]:
    curve = results.curve(run)
    figures: tuple[str, ...] = ("–",) * 4
    if curve.points:
        last = curve.points[-1]
        figures = (f"{last.round:,}", f"{last.slot:,}", loss_text(last.loss, ".4g"), f"{last.accuracy:.1%}")
    seconds, digest = curve.description.get("seconds"), str(curve.description.get("model_sha256", ""))[:12]
    time = "–" if seconds is None else f"{seconds:,.0f}"
    return (run.name, curve.status, *figures, time, Html(f"<code>{digest}</code>"))


def making_section(
    path: Path, trained: StudyResults, cases: Sequence[Evidence], powers: Powers | None = None
) -> Section:
    """Return the commands that repeat the report, the parameters, the machine and the versions."""
    lines = tuple(_commands(path, trained.manifest, powers))
    # What all runs of a data set have in common; the rest is in the names of the runs.
    columns = [
        {
            **{name: value for name, value in case.base.options().items() if name not in VARIED},
            "evaluate_every": case.base.slots_between_evaluations,
            "seeds": case.seeds,
        }
        for case in cases
    ]
    parameters = [(name, *(_value(column[name]) for column in columns)) for name in columns[0]]
    parts = (
        *((heading("Commands"), code(*lines)) if lines else ()),
        paragraph(
            "Finished runs are kept and interrupted ones resumed; the result does not depend on the "
            "number of workers. The same figures are in figures/ as PNG and PDF, the numbers in "
            "runs/*/history.csv."
        ),
        heading("Parameters"),
        table(("parameter", *(TITLES[case.base.dataset.data] for case in cases)), parameters),
        heading("Machine and versions"),
        definitions(_machine(trained)),
    )
    return Section("making", "How this was made", parts)


def _commands(path: Path, manifest: Manifest, powers: Powers | None) -> Iterator[str]:
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
                prefix = "" if field.name == "slot_seconds" else "power-"
                parts += [f"--{prefix}{field.name.replace('_', '-')}", str(value)]
        yield shlex.join(parts)


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | range) else str(value)


def _machine(trained: StudyResults) -> Iterator[tuple[str, str]]:
    """Yield the machines, versions and time of the runs, as in their run.json."""
    versions: dict[str, set[str]] = {}
    seconds = 0.0
    for run in trained.runs:
        description = trained.results.curve(run).description
        seconds += description.get("seconds") or 0
        for name, number in description.get("versions", {}).items():
            versions.setdefault(name, set()).add(number)
    yield from ((name, "; ".join(sorted(numbers))) for name, numbers in versions.items())
    yield "time of the runs", duration(seconds)


def costs_section(runs: Iterable[Run], powers: Powers | None = None) -> Section:
    """Return a table of air time and energy for each data set, with joules if powers are given."""
    # One run of each schedule: seeds, partitions and readings do not change it.
    found: dict[object, RunConfig] = {}
    for run in runs:
        config = run.config
        found.setdefault((config.dataset.data, config.channel, config.schedule), config)
    parts: list[Content] = [paragraph(COSTS)]
    headings = COST_HEADINGS
    if powers is not None:
        headings = (*headings, "#joules")
        watts = (
            f"Joules of all devices, at {powers.computing:g} W computing, {powers.sending:g} W sending, "
            f"{powers.receiving:g} W receiving and {powers.idle:g} W waiting; a slot takes "
            f"{powers.seconds:g} s."
        )
        parts.append(paragraph(watts))
    for (data, devices, deadline), configs in groupby(sorted(found.values(), key=_case), _case):
        parts.append(heading(f"{TITLES[data]}: N={devices}, T={deadline:,}"))
        parts.append(table(headings, [_cost_row(config, powers) for config in configs]))
    return Section("spending", "Air time and energy", tuple(parts) if found else ())


def _case(config: RunConfig) -> tuple[DataName, int, int]:
    return config.dataset.data, config.channel.devices, config.deadline


def _cost_row(config: RunConfig, powers: Powers | None) -> Sequence[str]:
    channel, costs = config.channel, Costs.of(config.simulate(), powers)
    least, _, most = (f"{number:,}" for number in costs.air_slots)
    on_channel = (costs.server.receiving, costs.server.sending, costs.server.idle)
    cells = (
        config.schedule,
        *map(str, (channel.group_size_text, channel.compute_slots, channel.link_slots)),
        *(f"{slots / costs.slots:.1%}" for slots in on_channel),
        least if least == most else f"{least} to {most}",
        f"{costs.shares['computing']:.1%}",
        f"{costs.shares['idle']:.1%}",
    )
    return cells if costs.joules is None else (*cells, f"{costs.joules:,.0f}")
