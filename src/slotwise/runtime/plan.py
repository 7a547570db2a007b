"""From a run's parameters to what a server follows: the plan, and the Scheduler that the plan shows."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.errors import UserError
from slotwise.runs import RunParameters
from slotwise.schedule import Scheduler, Timeline, scheduler_for


def live_plan(parameters: RunParameters) -> Timeline:
    """The plan of a live run.

    Raises:
        UserError: the parameters make up faults.
    """
    fleet = parameters.fleet()
    if fleet is not None and not fleet.faultless:
        raise UserError(
            "jitter, loss and absences are for simulations: on a network they are real, so leave them out"
        )
    return parameters.timeline()


def scheduler_of(parameters: RunParameters, absent: Iterable[int] = ()) -> Scheduler:
    """The Scheduler that the run's plan shows; it may begin without some of the devices."""
    return scheduler_for(
        parameters.scenario(),
        parameters.schedule,
        delay=parameters.delay,
        fleet=parameters.fleet(),
        participation=parameters.participation,
        seed=parameters.seed,
        absent=absent,
    )
