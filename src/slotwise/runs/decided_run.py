"""Runs whose schedule is decided by what is learned: their episode, and who decides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slotwise.base.errors import InputError, UserError
from slotwise.base.user_code import user_errors
from slotwise.runs.config import RunConfig
from slotwise.schedule import Agent, Decision, DecisionKind, Episode, Learning
from slotwise.schedule.decisions import Answer


def episode_of(config: RunConfig) -> Episode:
    """Return the episode of a run, before its first decision."""
    policy, fleet, link = config.without_learning().ready_parts()
    return Episode(config.channel, policy, decide=tuple(config.agents), fleet=fleet, link=link)


class PolicyAgent:
    """Lets the functions of policy and access scheme decide, each what it is for.

    Attributes:
        sees_losses: Whether any of them may look at losses.
    """

    def __init__(self, config: RunConfig) -> None:
        self._agents: Mapping[DecisionKind, Agent] = config.agents
        self._names = {kind: config.name_of_agent(kind) for kind in self._agents}
        self.sees_losses = any(getattr(agent, "sees_losses", True) for agent in self._agents.values())

    def __call__(self, decision: Decision, learning: Learning) -> Answer:
        """Return the answer of the function for this kind of decision.

        Raises:
            UserError: it fails, or its answer is not allowed.
            InputError: it needs losses, and the task reports none.
        """
        option, name = self._names[decision.kind]
        agent = self._agents[decision.kind]
        heard = np.isfinite(learning.norms)
        if getattr(agent, "sees_losses", False) and heard.any() and np.isnan(learning.losses[heard]).all():
            needed = "used with a task that says losses: by device_loss, or a metric loss of trainings"
            raise InputError(option, name, needed)
        with user_errors(f"{option} {name}"):
            answer = agent(decision, learning)
        try:
            return decision.checked(answer)
        except InputError as error:
            raise UserError(f"{option} {name}: returned {error}") from None
