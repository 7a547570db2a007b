"""From a run's parameters to what a server follows: the plan, and the Scheduler that the plan shows."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.errors import InputError
from slotwise.runs import RunConfig
from slotwise.schedule import Scheduler, Timeline, scheduler_for

FAULTS = ("jitter", "loss", "absences", "mean_present")


def live_plan(parameters: RunConfig) -> Timeline:
    """The plan of a live run.

    Raises:
        InputError: the parameters make up faults.
    """
    for name in FAULTS:
        value = getattr(parameters, name)
        if value:
            raise InputError(name, value, "left out: faults are made up in simulations, here they are real")
    return parameters.simulate()


def scheduler_of(parameters: RunConfig, absent: Iterable[int] = ()) -> Scheduler:
    """The Scheduler that the run's plan shows; it may begin without some of the devices."""
    return scheduler_for(
        parameters.channel,
        parameters.policy.policy(parameters.seed),
        fleet=parameters.make_fleet(),
        absent=absent,
    )
