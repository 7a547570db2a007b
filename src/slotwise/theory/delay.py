"""How long devices may wait for a fresher model at no cost: Proposition 1, and what replaces it for S ∤ N."""

from __future__ import annotations

from slotwise.scenario import Scenario


def free_delay(scenario: Scenario) -> int:
    """The largest intentional delay alpha that never ends a round later than delay 0 does.

    Where S divides N this is Proposition 1: alpha = 0 if tau_comp ≥ r(G−1)(S+1), else alpha = G−1−d* with
    d* = ceil(tau_comp / (r(S+1))).

    Where S does not divide N the paper promises nothing. The same argument still gives the delay: with
    m = N mod S, a round's first m uplinks are G−1−alpha rounds old and the others one round less, so the
    others must be ready after m uplinks of it, (d*−1)·r(S+1) + r·m ≥ tau_comp. It is the delay that costs no
    *slot*, ever; a deadline may leave room for a larger one that costs no *round* (`slotwise.schedule` finds
    that one).
    """
    return scenario.groups - 1 - effective_staleness(scenario)


def effective_staleness(scenario: Scenario) -> int:
    """d*, the least staleness that costs no slot: at most G−1, which waiting for no model has anyway."""
    communication, oldest = scenario.communication_slots, scenario.groups - 1
    short = scenario.devices % scenario.group_size
    if short == 0:
        return min(oldest, -(-scenario.compute_slots // communication))
    beyond = max(0, scenario.compute_slots - scenario.link_slots * short)
    return min(oldest, 1 + -(-beyond // communication))
