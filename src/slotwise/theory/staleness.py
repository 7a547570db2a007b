"""How old an update is when it is applied, in closed form (equal devices, S divides N)."""

from __future__ import annotations

from slotwise.scenario import Scenario
from slotwise.theory.timing import effective_groups


def staleness(scenario: Scenario, round_number: int, delay: int = 0) -> int:
    """d_{n,k} = min(k, G−1−delay) for every sender of round k (eq. 16; with a delay, min(k, d*)).

    Delay 0 is asynchronous FL: k while k < G, then G−1. The largest delay, G−1, is synchronous FL: 0.
    """
    return min(round_number, effective_groups(scenario, delay) - 1)


def version(scenario: Scenario, round_number: int, delay: int = 0) -> int:
    """k̂_n = k − d_{n,k}: the model that the senders of round k trained on.

    The paper's case formula for k̂_n under intentional delay is one off against its own Algorithm 2; this is
    the algorithm's (docs/paper-notes.md).
    """
    return round_number - staleness(scenario, round_number, delay)
