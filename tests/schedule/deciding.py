"""Episodes of random cases, and answers as the policy of a case would give them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from random_fleets import lost_rows, uplink_rows
from random_groups import Case
from random_links import ChannelCase

from slotwise import Episode, Synchronous, Timeline
from slotwise.schedule import Decision, first_ready
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.policies import BOOKED, Participants


def rows(timeline: Timeline) -> tuple[Any, ...]:
    """All that happens on the channel."""
    slots = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    receivers = [timeline.receivers(v).tolist() for v in range(timeline.models)]
    others = timeline.waits.tolist(), timeline.reduced.tolist()
    return (uplink_rows(timeline), lost_rows(timeline), list(slots), receivers, *others)


class LikePolicy:
    """Answers each decision as the policy of a case would, from what the decision shows.

    Blocks are those of an allocation, which may also return powers; else powers follow from device and slot.
    """

    def __init__(self, case: ChannelCase | Case, allocation: Any = None, part: Any = None) -> None:
        self.scenario, self.policy, self.allocation, self.part = case.scenario, case.policy, allocation, part

    def blocks(self, decision: Decision) -> Any:
        found = self.allocation(decision.group)
        return found[0] if isinstance(found, tuple) else found

    def power(self, decision: Decision) -> Any:
        if self.part is not None:
            return [self.part(n, decision.slot) for n in decision.allowed]
        blocks, powers = self.allocation(decision.group)
        assert decision.blocks == tuple(blocks.tolist())
        return powers

    def __call__(self, decision: Decision) -> Any:
        return getattr(self, decision.kind)(decision)

    def sender(self, decision: Decision) -> int:
        return self.policy.selection(decision.waiting, decision.round, decision.last_sender).device

    def group_size(self, decision: Decision) -> int:
        changes = ((0, self.scenario.group_size), *self.scenario.group_size_changes)
        return [size for slot, size in changes if slot <= decision.slot][-1]

    def delay(self, decision: Decision) -> int:
        return getattr(self.policy, "delay", 0)

    def participants(self, decision: Decision) -> Sequence[int]:
        assert isinstance(self.policy, Synchronous)
        if self.policy.participation in BOOKED:
            absent = set(range(1, self.scenario.devices + 1)).difference(decision.allowed)
            size = decision.count
            if self.policy.participation == "round-robin":
                size = self.group_size(decision) if decision.round else self.scenario.group_size
            everyone, seed = self.scenario.devices, self.policy.seed
            return Participants(everyone, size, self.policy.participation, seed).participants(
                decision.round, absent
            )
        left, last, chosen = list(decision.waiting), 0, []
        for _ in range(decision.count):
            one = self.policy.participation(left, decision.round, last)
            left.remove(one)
            last = one.device
            chosen.append(last)
        return chosen


def decided(case: ChannelCase | Case, kinds: Sequence[DecisionKind], **options: Any) -> Episode:
    """The episode of a case in which its policy does not decide about these."""
    policy: Any = case.policy
    if "sender" in kinds:
        policy = replace(policy, selection=first_ready)
    if "participants" in kinds:
        policy = replace(policy, participation="round-robin")
    scenario = replace(case.scenario, group_size_changes=()) if "group_size" in kinds else case.scenario
    return Episode(scenario, policy, decide=kinds, fleet=case.fleet, link=case.link, **options)


def arbitrary(decision: Decision) -> Any:
    """An answer that depends on all that a decision shows."""
    key = hash((decision.slot, decision.round, *decision.allowed, *decision.waiting))
    if decision.kind == "blocks":
        most = decision.count // len(decision.allowed)
        return [1 + (key + n) % most for n in decision.allowed]
    if decision.kind == "power":
        return [(1 + (key + n) % 7) / 7 for n in decision.allowed]
    if decision.kind != "participants":
        return decision.allowed[key % len(decision.allowed)]
    start, count = key % len(decision.allowed), 1 + key % decision.count
    return [decision.allowed[(start + i) % len(decision.allowed)] for i in range(count)]
