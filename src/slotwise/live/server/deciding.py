"""Deciding: the decisions of a live run by what is learned, as `Training` takes them in a simulation.

An agent answers where the Scheduler asks, by what the updates that have arrived say. It is called in the loop
of the run: while it thinks, nothing is granted.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.aggregation import Vector
from slotwise.learning.engine import norm_of
from slotwise.live.server.monitor import RunSpec
from slotwise.live.server.state import LiveState
from slotwise.schedule import Decision, Deliver, Event, Learning
from slotwise.schedule.decisions import OF_ROUNDS, with_group_size
from slotwise.schedule.learning_state import Report
from slotwise.schedule.scheduler_events import Action


class Deciding:
    """Drives the Scheduler of a run, and answers what it asks; a schedule known before is asked nothing."""

    def __init__(self, spec: RunSpec, state: LiveState) -> None:
        self._spec, self._state, self._agent = spec, state, spec.agent
        everyone = range(1, spec.fleet.devices + 1)
        samples = [spec.sample_count(n) for n in everyone] if spec.agent is not None else []
        self._learning = Learning.first(samples).restored(state.learned)
        self._reports: list[Report] = []  # of the current round

    def start(self) -> Deliver:
        """Return the receivers of w_0."""
        self._answer()
        return self._state.scheduler.start()

    def next_action(self, events: Sequence[Event], slot: int) -> Action | None:
        """Process the events of one instant; return what the channel does next."""
        scheduler = self._state.scheduler
        action = scheduler.step(events, slot)
        while scheduler.undecided is not None:
            self._answer()
            action = scheduler.step((), slot)
        return action

    def _answer(self) -> None:
        scheduler = self._state.scheduler
        while (decision := scheduler.undecided) is not None:
            assert self._agent is not None
            scheduler.decide(self._agent(decision, self._known(decision)))

    def _known(self, decision: Decision) -> Learning:
        """Return what is known: at the end of a round its updates count."""
        at_end = decision.kind in OF_ROUNDS and self._state.log.starters is not None
        return self._learning.after(self._reports) if at_end else self._learning

    def note_update(self, device: int, update: Vector, loss: float) -> None:
        """Note an update that has arrived, and the loss that its device reports."""
        if self._agent is not None:
            self._reports.append(Report(device, norm_of(update), loss))

    def note_round(self, slot: int) -> None:
        """Note that a round is complete, whose model is broadcast from ``slot`` on."""
        if self._agent is None:
            return
        self._learning, self._reports = self._learning.after(self._reports), []
        state = self._state
        state.learned = self._learning.as_arrays()
        state.group_sizes = with_group_size(
            state.group_sizes, slot, state.scheduler.group_size, self._spec.group_size
        )
