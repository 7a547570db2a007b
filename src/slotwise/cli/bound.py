"""The bound command: the bound of Theorem 1."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise import theory
from slotwise.base.errors import ConflictError, InputError, MissingError, NoEffectError
from slotwise.base.files import check_writable, write_atomically
from slotwise.cli.flags import (
    PANELS,
    AsJson,
    Quiet,
    command,
    flags_of,
    output,
    panel,
    run_flags,
    whole_number,
)
from slotwise.options import choose
from slotwise.options.checks import whole
from slotwise.report.bound_figure import CONSTANT_NAMES, bound_figure, print_case
from slotwise.report.plotting import picture_kind
from slotwise.report.progress import StageProgress
from slotwise.runs import RunFolder
from slotwise.runs.bound_case import BoundCase, estimate_constants
from slotwise.runs.config import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import POLICY, Delay
from slotwise.theory.bound import Constants, Setting

ANALYSIS = panel("Constants of the analysis")
CHANNEL = ("devices", "group_size", "compute_slots", "link_slots", "deadline")
OF_THE_RUN = (*CHANNEL, "batch_size", "schedule", "delay")
# The paper's MNIST case, as in the other commands; --estimate takes all of it from the run.
DEFAULTS = RunConfig().options() | {"schedule": "async"}
FLAGS = run_flags("channel", "policy", "training", only=(*OF_THE_RUN, "learning_rate"), defaults=DEFAULTS)

ESTIMATE = Parameter(
    help="Run folder: estimate the constants that are not given on its task.", group=ANALYSIS
)
ROUNDS = Parameter(help="Rounds, if fewer.", group=PANELS["channel"], converter=whole_number)


@command(*flags_of(Constants, ANALYSIS), *FLAGS)
def bound(
    options: dict[str, Any],
    *,
    estimate: Annotated[Path | None, ESTIMATE] = None,
    rounds: Annotated[int | None, ROUNDS] = None,
    out: Annotated[Path | None, output("Draw the bounds against rounds: FILE.png, .svg or .pdf.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show the bound of Theorem 1: as published, corrected, and for groups that take turns.

    It bounds the mean of ‖∇f(w_k)‖² over rounds, for one gradient per update; docs/bound.md has the proofs.

    With --estimate the task of a run is trained anew for about a minute, to estimate and to measure.
    """
    kind = picture_kind(out) if out else ""
    if out is not None:
        check_writable(out)
    known = {name: float(options[name]) for name in CONSTANT_NAMES if name in options}
    if estimate is None:
        if "delay" in options and options.get("schedule", DEFAULTS["schedule"]) != "idfl":
            raise NoEffectError("delay", options["delay"], "unless the schedule is idfl")
        case = BoundCase(_setting({**DEFAULTS, **options}, rounds), _constants(known))
    else:
        for name in OF_THE_RUN:
            if name in options:
                raise ConflictError(name, "estimate")
        folder, rate = RunFolder.open(estimate), options.get("learning_rate")
        with StageProgress(quiet=quiet) as bars:
            case = estimate_constants(
                folder, known=known, rounds=rounds, learning_rate=rate, progress=bars.progress
            )
    if as_json:
        print(json.dumps(case.as_dict(), indent=2))
    else:
        print_case(case)
    if out is not None:
        write_atomically(out, bound_figure(case, kind))
        print(f"wrote {out}", file=sys.stderr)


def _constants(known: dict[str, float]) -> Constants:
    for field in fields(Constants):
        if field.name not in known and field.name != "device_smoothness":
            raise MissingError(field.name, "given, unless --estimate RUN finds it")
    return Constants(**known)


def _setting(options: dict[str, Any], rounds: int | None) -> Setting:
    """The case that the options describe, in closed form."""
    scenario = Scenario(**{name: options[name] for name in CHANNEL})
    wanted = None if rounds is None else whole("rounds", rounds)
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


def _delay(scenario: Scenario, schedule: str, delay: Delay) -> int:
    if schedule not in ("async", "idfl"):
        raise InputError("schedule", schedule, "async or idfl")
    choose(POLICY, {"schedule": schedule} | ({} if delay == "auto" else {"delay": delay}))
    if delay == "auto":
        return theory.free_delay(scenario) if schedule == "idfl" else 0
    return delay
