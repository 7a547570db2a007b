"""Run: one training of an experiment, under a name that its parameters alone decide.

Parameters that give the same timeline and the same learning are one run: intentional delay that comes out
as 0 is the asynchronous schedule, so it is trained once and drawn twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from slotwise.runs import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import automatic_delay


@dataclass(frozen=True)
class Run:
    """A training: the name of its folder, and its parameters."""

    name: str
    parameters: RunConfig

    @classmethod
    def of(cls, parameters: RunConfig) -> Run:
        """The run that trains what ``parameters`` say."""
        own = as_trained(parameters)
        return cls(_name(own), own)


@cache
def free_delay(scenario: Scenario) -> int:
    """The intentional delay to choose; searched for once, because the same few cases are asked for often."""
    return automatic_delay(scenario)


def as_trained(parameters: RunConfig) -> RunConfig:
    """The same training under its simplest description.

    Devices that differ are left as they are: their intentional delay is another one for each.
    """
    if parameters.policy.schedule != "idfl":
        return parameters if parameters.policy.delay == "auto" else parameters.with_options(delay="auto")
    if parameters.make_fleet() is not None or parameters.policy.selection != "first-ready":
        return parameters
    free = free_delay(parameters.channel)
    delay = free if parameters.policy.delay == "auto" else parameters.policy.delay
    if delay == 0:
        return parameters.with_options(schedule="async", delay="auto")
    return parameters.with_options(delay="auto" if delay == free else delay)


def _name(parameters: RunConfig) -> str:
    """What a run has in common with the paper's case is left out, but for what the figures compare."""
    case = RunConfig.from_options({"data": parameters.dataset.data})
    parts = [parameters.dataset.data, parameters.policy.schedule, f"S{parameters.channel.group_size}"]
    if parameters.channel.compute_slots != case.channel.compute_slots:
        parts.append(f"compute{parameters.channel.compute_slots}")
    if parameters.channel.link_slots != case.channel.link_slots:
        parts.append(f"link{parameters.channel.link_slots}")
    if parameters.dataset.partition != case.dataset.partition:
        parts.append(parameters.dataset.partition)
    if parameters.dataset.input_scale != case.dataset.input_scale:
        parts.append(parameters.dataset.input_scale)
    if parameters.training.update != case.training.update:
        parts.append(parameters.training.update)
    if (parameters.model.channels, parameters.model.hidden) != (case.model.channels, case.model.hidden):
        parts.append("x".join(map(str, (*parameters.model.channels, *parameters.model.hidden))))
    return "-".join([*parts, f"T{parameters.deadline}", f"seed{parameters.seed}"])


def distinct(runs: list[Run]) -> tuple[Run, ...]:
    """Each run once, where it first stands."""
    return tuple({run.name: run for run in runs}.values())
