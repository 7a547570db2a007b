"""slotwise bound."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slotwise import theory
from slotwise.cli.bound_case import NAMES, measured_case
from slotwise.cli.bound_tables import print_case
from slotwise.cli.options import CHANNEL, OUTPUT, SCHEDULE, Json, delay_of, picture_kind
from slotwise.errors import InputError
from slotwise.files import check_writable, write_atomically
from slotwise.runs import RunFolder
from slotwise.runs.bound_case import BoundCase
from slotwise.scenario import Scenario, whole
from slotwise.theory.bound import Constants, Setting

ANALYSIS = "Constants of the analysis"
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
    kind = picture_kind(out) if out else ""
    if out is not None:
        check_writable(out)
    known = {name: float(given[name]) for name in NAMES if name in given}
    if estimate is None:
        case = BoundCase(_setting({**DEFAULTS, **given}), _constants(known))
    else:
        _refuse(given)
        case = measured_case(RunFolder.open(estimate), known, rounds, learning_rate, quiet=quiet)
    if as_json:
        typer.echo(json.dumps(case.as_dict(), indent=2))
    else:
        print_case(case)
    if out is not None:
        from slotwise.report.bound_figure import bound_figure  # noqa: PLC0415  (loads matplotlib)

        write_atomically(out, bound_figure(case.constants, case.setting, kind, case.measurement))
        typer.echo(f"wrote {out}", err=True)


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
