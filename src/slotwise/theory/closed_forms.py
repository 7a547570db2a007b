"""The paper's closed forms for equal devices: the length of rounds, staleness and the free delay.

With C sub-channels a round takes r(ceil(S/C)+1) slots instead of r(S+1), and everything that follows from it
holds unchanged.

The paper assumes that S divides N. If it does not, the last group is short, every round mixes two groups, and
only the long-run average is promised here (`round_slots`). The functions about single rounds then raise an
InputError: `slotwise.schedule` computes the exact schedule instead.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd

from slotwise.base.errors import InputError
from slotwise.scenario import Scenario


def sync_round_slots(scenario: Scenario) -> int:
    """Return tau_syn = tau_comp + r(S+1) (eq. 8), for every group size."""
    scenario.refuse_changes()
    return scenario.compute_slots + scenario.communication_slots


def sync_rounds(scenario: Scenario, deadline: int) -> int:
    """Return the synchronous rounds completed by ``deadline``, floor(T / tau_syn), for every group size."""
    return deadline // sync_round_slots(scenario)


def cycle_slots(scenario: Scenario, delay: int = 0) -> int:
    """Return the slots from the end of a group's round to the end of its next one, waiting included.

    With staleness d = G−1−delay a model is in use for d+1 rounds. They take r(S+1) each if the channel is the
    bottleneck, tau_comp + r(S+1) together if computing is: max((d+1)·r(S+1), tau_comp + r(S+1)).
    """
    communication = scenario.communication_slots
    return max(_effective_groups(scenario, delay) * communication, scenario.compute_slots + communication)


def round_slots(scenario: Scenario, delay: int = 0) -> Fraction:
    """Return the average slots per round, tau_asyn (eq. 10); with a delay, d*+1 = G − delay replaces G.

    If S does not divide N, this goes beyond the paper. With m = N mod S and d = G−1−delay, the first m
    senders of a round trained on a model d rounds old and the others on one of d−1, so its end E_k is

        max(E_{k−1} + r(S+1), E_{k−1−d} + tau_comp + r(S+1), E_{k−d} + tau_comp + r(S−m+1)),

    and a recurrence of that form grows by the largest ratio of slots to rounds among its terms. The middle
    term never has it: it is the last one delayed by the m uplinks, which take less than a round.
    """
    scenario.refuse_changes()
    if scenario.divides:
        # A cycle has d*+1 rounds.
        return Fraction(cycle_slots(scenario, delay), _effective_groups(scenario, delay))
    _refuse_uneven_groups_on_sub_channels(scenario)
    # At least 1: the largest delay is G−2 if S does not divide N.
    age = scenario.groups - 1 - scenario.checked_delay(delay)
    short = scenario.link_slots * (scenario.devices % scenario.group_size)
    own = scenario.compute_slots + scenario.communication_slots - short
    # The ratios of the first and the third term; fractions keep the average exact.
    return max(Fraction(scenario.communication_slots), Fraction(own, age))


def round_end(scenario: Scenario, round_number: int, delay: int = 0) -> int:
    """Return the slot at which round k's broadcast has ended, start-up included.

    The first d+1 rounds use w_0: they end at tau_comp + (k+1)·r(S+1). From there each round repeats the one
    d+1 before it, a cycle later.
    """
    cycles, position = divmod(round_number, _effective_groups(scenario, delay))
    first = scenario.compute_slots + (position + 1) * scenario.communication_slots
    return first + cycles * cycle_slots(scenario, delay)


def rounds_within(scenario: Scenario, deadline: int, delay: int = 0) -> int:
    """Return the rounds completed by ``deadline``; Table 1 of the paper also counts w_0, one more."""
    groups = _effective_groups(scenario, delay)
    # The rounds of a cycle follow each other without a gap. If the channel waits, it does so after them.
    cycles, rest = divmod(deadline - scenario.compute_slots, cycle_slots(scenario, delay))
    return cycles * groups + min(groups, rest // scenario.communication_slots) if cycles >= 0 else 0


def staleness(scenario: Scenario, round_number: int, delay: int = 0) -> int:
    """Return d_{n,k} = min(k, G−1−delay) for every sender of round k (eq. 16; with a delay, min(k, d*)).

    Delay 0 is asynchronous FL: k while k < G, then G−1. The largest delay, G−1, is synchronous FL: 0.
    """
    return min(round_number, _effective_groups(scenario, delay) - 1)


def version(scenario: Scenario, round_number: int, delay: int = 0) -> int:
    """Return k̂_n = k − d_{n,k}, the model that the senders of round k trained on.

    The paper's case formula for k̂_n under intentional delay is one off against its own Algorithm 2; this is
    the algorithm's (docs/paper-notes.md).
    """
    return round_number - staleness(scenario, round_number, delay)


def free_delay(scenario: Scenario) -> int:
    """Return the largest intentional delay alpha that never ends a round later than delay 0 does.

    If S divides N, this is Proposition 1: alpha = 0 if tau_comp ≥ r(G−1)(S+1), else alpha = G−1−d* with
    d* = ceil(tau_comp / (r(S+1))).

    If S does not divide N, the paper promises nothing. The same argument still gives the delay: with
    m = N mod S, a round's first m uplinks are G−1−alpha rounds old and the others one round less, so the
    others must be ready after m uplinks of it, (d*−1)·r(S+1) + r·m ≥ tau_comp. It is the delay that costs no
    *slot*, ever; a deadline may leave room for a larger one that costs no *round* (`automatic_delay`).
    """
    return scenario.groups - 1 - effective_staleness(scenario)


def effective_staleness(scenario: Scenario) -> int:
    """Return d*, the least staleness that costs no slot: at most G−1, which delay 0 has anyway."""
    scenario.refuse_changes()
    communication, oldest = scenario.communication_slots, scenario.groups - 1
    short = scenario.devices % scenario.group_size
    if short == 0:
        # Proposition 1. The minimum is its case tau_comp ≥ r(G−1)(S+1), in which no delay is free.
        return min(oldest, -(-scenario.compute_slots // communication))
    _refuse_uneven_groups_on_sub_channels(scenario)
    # The least d* with (d*−1)·r(S+1) + r·m ≥ tau_comp, see `free_delay`.
    beyond = max(0, scenario.compute_slots - scenario.link_slots * short)
    return min(oldest, 1 + -(-beyond // communication))


def groups_per_chain(scenario: Scenario, delay: int = 0) -> int:
    """Return how many of the G groups feed each chain of models if the server averages models.

    With staleness d round k starts from w_{k−d} and makes w_{k+1}, so the models form d+1 chains, and round k
    belongs to chain k mod (d+1). Group k mod G sends in it. A chain meets G / gcd(G, d+1) of the groups.
    """
    return scenario.groups // gcd(scenario.groups, _effective_groups(scenario, delay))


def _refuse_uneven_groups_on_sub_channels(scenario: Scenario) -> None:
    if scenario.sub_channels > 1:
        allowed = f"1, or group_size a divisor of {scenario.devices}; simulate() is exact for both"
        raise InputError("sub_channels", scenario.sub_channels, allowed)


def _effective_groups(scenario: Scenario, delay: int) -> int:
    """Return d*+1 = G − delay, the number of groups that the intentional delay leaves."""
    scenario.refuse_changes()
    if not scenario.divides:
        allowed = f"a divisor of {scenario.devices} for closed forms; simulate() is exact for any group size"
        raise InputError("group_size", scenario.group_size, allowed)
    return scenario.groups - scenario.checked_delay(delay)
