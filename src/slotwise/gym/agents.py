"""The built-in selections as agents, and agents compared on the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.base.extras import importing
from slotwise.base.user_code import check_arguments, check_type
from slotwise.schedule.selections import (
    RandomSelection,
    Selection,
    best_channel,
    first_ready,
    largest_age,
    proportional_fair,
    round_robin,
)

with importing():
    import gymnasium

Environment = gymnasium.Env[Any, Any]
Agent = Callable[[Environment, Any], Any]
"""A function of the environment and of what it shows, which returns the action."""


@dataclass(frozen=True)
class SelectionAgent:
    """Acts as a selection chooses, with what a selection sees."""

    selection: Selection

    def __call__(self, env: Environment, observation: Any) -> Any:  # noqa: ARG002
        """Return the action."""
        return env.unwrapped.action_like(self.selection)  # type: ignore[attr-defined]


BASELINES: Mapping[str, Agent] = MappingProxyType(
    {
        "first-ready": SelectionAgent(first_ready),
        "random": SelectionAgent(RandomSelection()),
        "round-robin": SelectionAgent(round_robin),
        "best-channel": SelectionAgent(best_channel),
        "proportional-fair": SelectionAgent(proportional_fair),
        "largest-age": SelectionAgent(largest_age),
    }
)
"""Agents to compare with, by the names of the selections."""


@dataclass(frozen=True)
class Comparison:
    """Returns of agents on the same episodes.

    Attributes:
        seeds: The seeds of the episodes.
        returns: The return of every episode, by agent.
    """

    seeds: tuple[int, ...]
    returns: Mapping[str, NDArray[np.float64]]

    def gain(self, agent: str, other: str) -> tuple[float, float]:
        """Return how much higher the returns of an agent are on average, and the standard error of that.

        Both met the same fleets and channels, so the differences vary less than the returns.
        """
        difference = self.returns[agent] - self.returns[other]
        spread = difference.std(ddof=1) if len(difference) > 1 else np.nan
        return float(difference.mean()), float(spread / np.sqrt(len(difference)))

    def __str__(self) -> str:
        """Return a table, the best agent first."""
        best = sorted(self.returns, key=lambda agent: -self.returns[agent].mean())
        width = max(map(len, best))
        rows = [f"{'agent':{width}}  {'return':>10}  behind the best"]
        for agent in best:
            behind, error = self.gain(best[0], agent)
            shown = "" if agent == best[0] else f"{behind:.3f} ± {error:.3f}"
            rows.append(f"{agent:{width}}  {self.returns[agent].mean():10.3f}  {shown}".rstrip())
        return "\n".join(rows)


def compare(env: Environment, agents: Mapping[str, Agent], seeds: Iterable[int]) -> Comparison:
    """Play an episode with each agent and seed; a seed is the same fleet and channel for all agents."""
    if not isinstance(seeds, Iterable):
        raise InputError("seeds", seeds, "several numbers, such as range(5)")
    check_type("agents", agents, Mapping)
    numbers = tuple(seeds)
    if not numbers or not agents:
        raise InputError("seeds" if agents else "agents", "nothing", "at least one")
    for name, agent in agents.items():
        check_arguments(f"agent {name}", agent, 2)
    returns = {
        name: np.array([played(env, agent, seed) for seed in numbers]) for name, agent in agents.items()
    }
    return Comparison(numbers, returns)


def played(env: Environment, agent: Agent, seed: int) -> float:
    """Play one episode; return the sum of its rewards."""
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(agent(env, observation))
        total, ended = total + float(reward), terminated or truncated
    return total
