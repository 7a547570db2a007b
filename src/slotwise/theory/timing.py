"""How long rounds take, in closed form, for equal devices.

The paper assumes that S divides N. Where it does not, the last group is short, every round mixes two groups,
and only the long-run average is promised here (`round_slots`). The functions that speak of single rounds then
raise an InputError: `slotwise.schedule` computes the exact schedule instead.
"""

from __future__ import annotations

from fractions import Fraction

from slotwise.errors import InputError
from slotwise.scenario import Scenario


def sync_round_slots(scenario: Scenario) -> int:
    """tau_syn = tau_comp + r(S+1) (eq. 8). Holds for every group size."""
    return scenario.compute_slots + scenario.communication_slots


def sync_rounds(scenario: Scenario, deadline: int) -> int:
    """Synchronous rounds completed by ``deadline``: floor(T / tau_syn). Holds for every group size."""
    return deadline // sync_round_slots(scenario)


def cycle_slots(scenario: Scenario, delay: int = 0) -> int:
    """Slots from the end of a group's round to the end of its next one, waiting included.

    With staleness d = G−1−delay a model is in use for d+1 rounds. They take r(S+1) each if the channel is the
    bottleneck, tau_comp + r(S+1) together if computing is: max((d+1)·r(S+1), tau_comp + r(S+1)).
    """
    rounds = effective_groups(scenario, delay)
    communication = scenario.communication_slots
    return max(rounds * communication, scenario.compute_slots + communication)


def round_slots(scenario: Scenario, delay: int = 0) -> Fraction:
    """Average slots per round, tau_asyn (eq. 10); with a delay, G is replaced by d*+1 = G − delay.

    Where S does not divide N this goes beyond the paper. With m = N mod S and d = G−1−delay, the first m
    senders of a round trained on a model d rounds old and the others on one of d−1, so its end E_k is

        max(E_{k−1} + r(S+1), E_{k−1−d} + tau_comp + r(S+1), E_{k−d} + tau_comp + r(S−m+1)),

    and a recurrence of that form grows by the largest ratio of slots to rounds among its terms. The middle
    term never has it: it is the last one delayed by the m uplinks, which take less than a round.
    """
    if scenario.divides:
        return Fraction(cycle_slots(scenario, delay), effective_groups(scenario, delay))
    age = scenario.groups - 1 - scenario.checked_delay(delay)
    short = scenario.link_slots * (scenario.devices % scenario.group_size)
    own = scenario.compute_slots + scenario.communication_slots - short
    return max(Fraction(scenario.communication_slots), Fraction(own, age))


def round_end(scenario: Scenario, round_number: int, delay: int = 0) -> int:
    """The slot at which round k's broadcast has ended, start-up included.

    The first d+1 rounds use w_0: they end at tau_comp + (k+1)·r(S+1). From there each round repeats the one
    d+1 before it, a cycle later.
    """
    cycles, position = divmod(round_number, effective_groups(scenario, delay))
    first = scenario.compute_slots + (position + 1) * scenario.communication_slots
    return first + cycles * cycle_slots(scenario, delay)


def rounds_within(scenario: Scenario, deadline: int, delay: int = 0) -> int:
    """Completed rounds by ``deadline``; the paper's Table 1 lists this number plus one (it counts w_0)."""
    groups = effective_groups(scenario, delay)
    cycles, rest = divmod(deadline - scenario.compute_slots, cycle_slots(scenario, delay))
    if cycles < 0:
        return 0
    return cycles * groups + min(groups, rest // scenario.communication_slots)


def effective_groups(scenario: Scenario, delay: int) -> int:
    """d*+1 = G − delay: what the intentional delay leaves of the number of groups."""
    if not scenario.divides:
        allowed = (
            f"a divisor of {scenario.devices} for the closed forms; simulate() is exact for any group size"
        )
        raise InputError("group_size", scenario.group_size, allowed)
    return scenario.groups - scenario.checked_delay(delay)
