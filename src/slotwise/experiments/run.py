"""Run: one training of an experiment, under a name that its parameters alone decide.

Parameters that give the same timeline and the same learning are one run: intentional delay that comes out
as 0 is the asynchronous schedule, so it is trained once and drawn twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from slotwise.runs import RunParameters, run_parameters
from slotwise.scenario import Scenario
from slotwise.schedule import automatic_delay


@dataclass(frozen=True)
class Run:
    """A training: the name of its folder, and its parameters."""

    name: str
    parameters: RunParameters

    @classmethod
    def of(cls, parameters: RunParameters) -> Run:
        """The run that trains what ``parameters`` say."""
        own = as_trained(parameters)
        return cls(_name(own), own)


@cache
def free_delay(scenario: Scenario) -> int:
    """The intentional delay to choose; searched for once, because the same few cases are asked for often."""
    return automatic_delay(scenario)


def as_trained(parameters: RunParameters) -> RunParameters:
    """The same training under its simplest description.

    Devices that differ are left as they are: their intentional delay is another one for each.
    """
    if parameters.schedule != "idfl":
        return parameters if parameters.delay == "auto" else replace(parameters, delay="auto")
    if parameters.fleet() is not None:
        return parameters
    free = free_delay(parameters.scenario())
    delay = free if parameters.delay == "auto" else parameters.delay
    if delay == 0:
        return replace(parameters, schedule="async", delay="auto")
    return replace(parameters, delay="auto" if delay == free else delay)


def _name(parameters: RunParameters) -> str:
    """What a run has in common with the paper's case is left out, but for what the figures compare."""
    case = run_parameters({"data": parameters.data})
    parts = [parameters.data, parameters.schedule, f"S{parameters.group_size}"]
    if parameters.compute_slots != case.compute_slots:
        parts.append(f"compute{parameters.compute_slots}")
    if parameters.link_slots != case.link_slots:
        parts.append(f"link{parameters.link_slots}")
    if parameters.partition != case.partition:
        parts.append(parameters.partition)
    if parameters.input_scale != case.input_scale:
        parts.append(parameters.input_scale)
    if parameters.update != case.update:
        parts.append(parameters.update)
    if (parameters.channels, parameters.hidden) != (case.channels, case.hidden):
        parts.append("x".join(map(str, (*parameters.channels, *parameters.hidden))))
    return "-".join([*parts, f"T{parameters.deadline}", f"seed{parameters.seed}"])


def distinct(runs: list[Run]) -> tuple[Run, ...]:
    """Each run once, where it first stands."""
    return tuple({run.name: run for run in runs}.values())
