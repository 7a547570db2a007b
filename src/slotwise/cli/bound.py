"""slotwise bound."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from slotwise import theory
from slotwise.cli.options import CHANNEL, OUTPUT, SCHEDULE, Json, delay_of
from slotwise.errors import InputError
from slotwise.files import check_writable, write_atomically
from slotwise.learning.constants import Measurement, SgdTask, measure, one_step, spread_rounds
from slotwise.runs import RunFolder, RunParameters
from slotwise.runs.build import build_task
from slotwise.scenario import Scenario, whole
from slotwise.schedule import simulate
from slotwise.theory.bound import Bound, Constants, Setting, corrected, published, round_robin

ANALYSIS = "Constants of the analysis"
KINDS = ("png", "svg", "pdf")
# The paper's MNIST case, as in the other commands; --estimate takes all of it from the run.
DEFAULTS = {
    "devices": 100,
    "group_size": 10,
    "compute_slots": 50,
    "link_slots": 1,
    "deadline": 50_000,
    "batch_size": 64,
    "learning_rate": 0.01,
    "schedule": "async",
    "delay": "auto",
}
OF_THE_RUN = set(DEFAULTS) - {"learning_rate"}
# Gradients of so many samples are computed, for training and for measuring: about a minute on two cores.
TRAINING_SAMPLES, MEASURING_SAMPLES = 700_000, 750_000
FEWEST_POINTS, MOST_POINTS = 5, 40
NAMES = {
    "smoothness": "L, smoothness of f",
    "device_smoothness": "L of every device's loss",
    "gradient_noise": "σ², gradient noise",
    "noise_growth": "M, noise growth",
    "heterogeneity": "Γ², heterogeneity",
    "initial_gap": "f(w0) − f*",
    "initial_gradient2": "‖∇f(w0)‖²",
}


def _number(text: str, panel: str, default: str | None = None) -> Any:
    return typer.Option(help=text, rich_help_panel=panel, show_default=default or False)


def bound(
    smoothness: Annotated[float | None, _number("L: f is L-smooth.", ANALYSIS)] = None,
    device_smoothness: Annotated[
        float | None, _number("L of every single device's loss. Default: that of f.", ANALYSIS)
    ] = None,
    gradient_noise: Annotated[float | None, _number("σ², the variance of one sample.", ANALYSIS)] = None,
    noise_growth: Annotated[
        float | None, _number("M: a sample's second moment is at most σ² + M‖∇f_n‖².", ANALYSIS)
    ] = None,
    heterogeneity: Annotated[float | None, _number("Γ², at least ‖∇f − ∇f_n‖².", ANALYSIS)] = None,
    initial_gap: Annotated[float | None, _number("f(w_0) − f*.", ANALYSIS)] = None,
    initial_gradient2: Annotated[float | None, _number("‖∇f(w_0)‖².", ANALYSIS)] = None,
    estimate: Annotated[
        Path | None,
        typer.Option(
            help="Estimate what is not given on the task of this run, a folder slotwise train made.",
            rich_help_panel=ANALYSIS,
        ),
    ] = None,
    devices: Annotated[int | None, _number("N, the number of devices.", CHANNEL, "100")] = None,
    group_size: Annotated[int | None, _number("S, the uplinks of one round.", CHANNEL, "10")] = None,
    compute_slots: Annotated[int | None, _number("Slots of one local training.", CHANNEL, "50")] = None,
    link_slots: Annotated[
        int | None, _number("r, slots of one uplink and of one broadcast.", CHANNEL, "1")
    ] = None,
    deadline: Annotated[int | None, _number("T, slots of the whole training.", CHANNEL, "50000")] = None,
    rounds: Annotated[int | None, _number("Rounds of the whole training, if that is fewer.", CHANNEL)] = None,
    schedule: Annotated[Literal["async", "idfl"] | None, _number("The schedule.", SCHEDULE, "async")] = None,
    delay: Annotated[
        str | None, _number("Intentional delay of idfl: rounds, or auto.", SCHEDULE, "auto")
    ] = None,
    batch_size: Annotated[int | None, _number("B, the samples of one gradient.", SCHEDULE, "64")] = None,
    learning_rate: Annotated[float | None, _number("Step size.", SCHEDULE, "0.01")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw the bounds against rounds: FILE.png, .svg or .pdf.", rich_help_panel=OUTPUT),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)] = False,
    as_json: Json = False,
) -> None:
    """The bound of Theorem 1: as published, corrected, and for groups that take turns.

    It bounds the mean of ‖∇f(w_k)‖² over rounds, for one gradient per update; docs/bound.md has the proofs.

    With --estimate the task of a run is trained anew for about a minute, to estimate and to measure.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    kind = _kind(out) if out else ""
    if out is not None:
        check_writable(out)
    known = {name: float(given[name]) for name in NAMES if name in given}
    if estimate is None:
        case = _Case(_setting({**DEFAULTS, **given}), _constants(known))
    else:
        _refuse(given)
        case = _measured(RunFolder.open(estimate), known, rounds, learning_rate, quiet=quiet)
    if as_json:
        typer.echo(json.dumps(case.as_dict(), indent=2))
    else:
        _print(case)
    if out is not None:
        from slotwise.report.bound_figure import bound_figure  # noqa: PLC0415  (loads matplotlib)

        write_atomically(out, bound_figure(case.constants, case.setting, kind, case.measurement))
        typer.echo(f"wrote {out}", err=True)


@dataclass(frozen=True)
class _Case:
    """What is bounded, and what was measured of it."""

    setting: Setting
    constants: Constants
    measurement: Measurement | None = None
    estimated: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def bounds(self) -> dict[str, Bound]:
        theorems = {"published": published, "corrected": corrected, "round_robin": round_robin}
        return {name: theorem(self.constants, self.setting) for name, theorem in theorems.items()}

    def as_dict(self) -> dict[str, Any]:
        setting = {**asdict(self.setting), "staleness": self.setting.staleness}
        measured = self.measurement and {
            "rounds": self.measurement.rounds,
            "gradient2": self.measurement.gradient2,
            "mean": float(self.measurement.running_mean()[-1]),
        }
        return {
            "setting": {**setting.pop("scenario"), **setting},
            "constants": asdict(self.constants),
            "estimated": sorted(self.estimated),
            **{name: bound.as_dict() for name, bound in self.bounds.items()},
            "measured": measured,
        }


def _kind(out: Path) -> str:
    kind = out.suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise InputError("out", out, "a file that ends in .png, .svg or .pdf")
    return kind


def _constants(known: dict[str, float]) -> Constants:
    for field in fields(Constants):
        if field.name not in known and field.name != "device_smoothness":
            raise InputError(field.name, "missing", "given, unless --estimate RUN finds it")
    return Constants(**known)


def _refuse(given: dict[str, Any]) -> None:
    for name in sorted(OF_THE_RUN & set(given)):
        raise InputError(name, given[name], "left out with --estimate: the run has its own")


def _setting(options: dict[str, Any]) -> Setting:
    """The case that the options describe, in closed form."""
    names = ("devices", "group_size", "compute_slots", "link_slots", "deadline")
    scenario = Scenario(**{name: options[name] for name in names})
    wanted = whole("rounds", options["rounds"]) if "rounds" in options else None
    setting = Setting(
        scenario=scenario,
        rounds=wanted or 1,
        batch_size=options["batch_size"],
        learning_rate=options["learning_rate"],
        delay=_delay(scenario, options["schedule"], options["delay"]),
    )
    completed = theory.rounds_within(scenario, options["deadline"], setting.delay)
    if completed == 0:
        first = scenario.compute_slots + scenario.communication_slots
        raise InputError("deadline", options["deadline"], f"at least {first}, the slots of the first round")
    return replace(setting, rounds=min(wanted or completed, completed))


def _delay(scenario: Scenario, schedule: str, text: str) -> int:
    delay = delay_of(text)
    if schedule == "async" and delay not in ("auto", 0):
        raise InputError("delay", delay, "auto or 0 for the schedule async")
    if delay == "auto":
        return theory.free_delay(scenario) if schedule == "idfl" else 0
    return delay


def _measured(
    folder: RunFolder, known: dict[str, float], rounds: int | None, rate: float | None, *, quiet: bool
) -> _Case:
    """Train the run's task anew, with one gradient per update, and measure on the way."""
    parameters = folder.parameters()
    if parameters.schedule == "sync" and parameters.participation == "random":
        raise InputError("estimate", folder.path, "a run whose groups take turns: no --participation random")
    setting = _setting_of(parameters, rounds, rate)
    task = one_step(
        cast(SgdTask, build_task(parameters)),
        batch_size=setting.batch_size,
        learning_rate=setting.learning_rate,
    )
    points = _points(parameters, setting.rounds)
    saved, _ = folder.checkpoints.load()
    ends = [] if saved is None else [saved.model]
    with _progress(
        setting.rounds, len(spread_rounds(setting.rounds, points)), 2 + len(ends), quiet
    ) as advance:
        measurement = measure(
            task,
            simulate(
                replace(setting.scenario, deadline=None),
                parameters.schedule,
                delay=parameters.delay,
                rounds=setting.rounds,
            ),
            points=points,
            others=ends,
            workers=len(os.sched_getaffinity(0)),
            advance=advance,
        )
    measurement = replace(measurement, constants=replace(measurement.constants, **known))
    found = frozenset(NAMES) - set(known)
    return _Case(setting, measurement.constants, measurement, found, _notes(parameters, setting))


def _setting_of(parameters: RunParameters, rounds: int | None, rate: float | None) -> Setting:
    """The run as the theorem sees it, cut to what can be trained in a minute."""
    scenario = parameters.scenario()
    timeline = parameters.timeline()
    batch = min(parameters.batch_size, parameters.samples_per_device)
    affordable = max(2 * scenario.groups + 1, TRAINING_SAMPLES // (scenario.group_size * batch))
    wanted = affordable if rounds is None else whole("rounds", rounds)
    return Setting(
        scenario=scenario,
        rounds=min(wanted, timeline.rounds),
        batch_size=batch,
        learning_rate=parameters.learning_rate if rate is None else rate,
        delay=scenario.groups - 1 if parameters.schedule == "sync" else timeline.delay,
    )


def _points(parameters: RunParameters, rounds: int) -> int:
    held = parameters.devices * parameters.samples_per_device
    return min(rounds, MOST_POINTS, max(FEWEST_POINTS, MEASURING_SAMPLES // held))


def _notes(parameters: RunParameters, setting: Setting) -> tuple[str, ...]:
    notes = ["Estimates are the largest values met, so the true constants are at least as large."]
    if parameters.local_steps > 1:
        notes.append(
            f"The run takes H = {parameters.local_steps} steps per update, the theorem one: measured is the "
            "same schedule, step size and batch size with H = 1."
        )
    all_rounds = parameters.timeline().rounds
    if setting.rounds < all_rounds:
        notes.append(
            f"Trained for {setting.rounds:,} of the run's {all_rounds:,} rounds (more with --rounds)."
        )
    return tuple(notes)


@contextmanager
def _progress(rounds: int, points: int, ends: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """One bar for each part of the work."""
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bars:
        totals = {"training": rounds, "gradients": points, "curvature": ends}
        rows = {name: bars.add_task(name, total=total) for name, total in totals.items()}
        yield lambda name: bars.advance(rows[name])


def _print(case: _Case) -> None:
    console = Console()
    console.print(_title(case.setting), highlight=False)
    console.print(_constants_table(case))
    console.print(_bounds_table(case))
    for name, bound in case.bounds.items():
        for reason in bound.uncovered:
            console.print(f"{name.replace('_', ' ')} does not cover it: {reason}", highlight=False)
    for note in case.notes:
        console.print(note, highlight=False)


def _constants_table(case: _Case) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("constant", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, words in NAMES.items():
        value = getattr(case.constants, name)
        if value is not None:
            table.add_row(words, f"{value:.4g}", "estimated" if name in case.estimated else "")
    return table


def _title(setting: Setting) -> str:
    scenario = setting.scenario
    return (
        f"{scenario.devices:,} devices, {scenario.group_size:,} a round, {setting.rounds:,} rounds, "
        f"staleness {setting.staleness:,} (delay {setting.delay:,}),\n"
        f"step size {setting.learning_rate:g}, batches of {setting.batch_size:,}"
    )


def _bounds_table(case: _Case) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("mean of ‖∇f(w_k)‖²", no_wrap=True)
    bounds = case.bounds.values()
    for heading in ("published", "corrected", "round robin"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in ("q1", "q2", "q3", "q4"):
        table.add_row(name.upper(), *(f"{getattr(b, name):.4g}" for b in bounds))
    table.add_row("bound (Q2+Q3+Q4)/Q1", *(f"{b.value:.4g}" for b in bounds), style="bold")
    if case.measurement is not None:
        mean = f"{case.measurement.running_mean()[-1]:.4g}"
        table.add_row(f"measured at {len(case.measurement.rounds)} rounds", *([mean] * 3))
    table.add_row("largest step covered", *(f"{b.largest_rate:.4g}" for b in bounds))
    table.add_row("covers this case", *("yes" if b.covered else "no" for b in bounds))
    return table
