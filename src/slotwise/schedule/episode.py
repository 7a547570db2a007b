"""Episode: a schedule decision by decision, in virtual slots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import ConflictError, InputError, UserError
from slotwise.base.user_code import check_arguments, user_errors
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.decisions import (
    KINDS,
    OF_GROUPS,
    OF_ROUNDS,
    Answer,
    Checked,
    Decision,
    DecisionKind,
    with_group_size,
)
from slotwise.schedule.events import driven
from slotwise.schedule.link import Floats, Link
from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import Delivery, FixedDelay, Policy
from slotwise.schedule.selections import first_ready
from slotwise.schedule.simulation import case_of, chosen_policy, refuse_agents, refuse_unseen_channel
from slotwise.schedule.timeline import Record, Timeline, Uplink, Wait, in_order


class Episode:
    """A schedule whose decisions are taken one by one by the caller, and recorded as a `Timeline`.

    >>> episode = Episode(Scenario(devices=4, group_size=2, compute_slots=3), "async", rounds=2)
    >>> while episode.decision is not None:
    ...     episode.answer(max(episode.decision.allowed))
    >>> episode.timeline.device.tolist()
    [4, 3, 2, 1]

    What is not decided here is as `simulate` has it, with the same arguments. Time stands still while a
    decision is open. With the same answers an episode is the same, so `answers` are all there is to save.

    Args:
        scenario: Devices, channel and (optionally) the deadline.
        policy: The policy that decides everything else: an object, or a short name with its options.
        decide: What is decided by the caller: "sender" (who sends next), "participants" (who takes part in a
            round of sync), "group_size" (of every round but the first), "delay" (how many rounds the senders
            of a round wait for their next model, in async and idfl), "blocks" (resource blocks of each device
            of a group, with ofdma), "power" (the part of its power that each of them sends with, with ofdma
            and noma); one of them or several.
        rounds: End after so many rounds, or at the deadline, whichever comes first.
        fleet: The devices, if they are not all equal and without faults.
        link: Slots and losses of uplinks and broadcasts, instead of those of scenario and fleet.
        options: delay, participation, selection and seed, as in `simulate`.

    Raises:
        InputError: a parameter is out of range, or what it says would be decided twice.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy | str = "async",
        *,
        decide: DecisionKind | Collection[DecisionKind] = "sender",
        rounds: int | None = None,
        fleet: Fleet | None = None,
        link: Link | None = None,
        **options: Any,
    ) -> None:
        given = {"decide": decide, "rounds": rounds, "fleet": fleet, "link": link, **options}
        self._given = {"scenario": scenario, "policy": policy, **given}
        self._kinds = _kinds(decide)
        self._policy = chosen_policy(policy, **options)
        refuse_agents(self._policy)
        self.scenario, self._rounds = scenario, rounds
        self.fleet, self.link = case_of(scenario, fleet, link)
        scenario.check_horizon(rounds)
        refuse_unseen_channel(self._policy, self.link)
        self._drive = driven(scenario, self._policy, self.fleet, rounds, self.link, self._kinds)
        _refuse_decided_twice(self._kinds, scenario, self._policy, self._drive.delivery)
        _refuse_given(self._kinds, self.link)
        self._scheduler = self._drive.scheduler
        self._steps = self._drive.steps(scenario.deadline)
        self._answers: list[Checked] = []
        self._changes: Sequence[tuple[int, int]] = []  # (slot of the broadcast, group size)
        self._ends: list[tuple[int, int]] = []  # uplinks and answers at the end of each round
        self.decision: Decision | None = None
        """What is to be decided now; None once the episode has ended."""
        self._advance(None)

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given, "answers": self.answers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["given"])  # type: ignore[misc]
        self.replay(state["answers"])

    def answer(self, answer: Answer) -> None:
        """Take the decision, and go on to the next.

        Raises:
            InputError: it is not allowed; the decision is still open.
            UserError: the episode has ended.
        """
        if self.decision is None:
            raise UserError("the episode has ended: there is nothing to decide")
        checked = self.decision.checked(answer)
        self._answers.append(checked)
        self._advance(checked)

    def play(self, agent: Callable[[Decision], Answer]) -> Timeline:
        """Let a function take all decisions that are left; return the timeline."""
        check_arguments("agent", agent, 1)
        while self.decision is not None:
            self.answer(agent(self.decision))
        return self.timeline

    def replay(self, answers: Iterable[Answer], rounds: int | None = None) -> None:
        """Take decisions as in an earlier episode with the same arguments, until so many rounds are done."""
        for answer in answers:
            if rounds is not None and self.rounds >= rounds:
                return
            self.answer(answer)

    def _advance(self, answer: Answer | None) -> None:
        """Play up to the next decision, or to the end."""
        self.decision = None
        try:
            with user_errors(f"schedule {self._policy.name}", anywhere=False):
                step = self._steps.send(answer)
                while isinstance(step, int):
                    self._note_round()
                    if self.rounds == self._rounds:
                        return
                    step = next(self._steps)
        except StopIteration:
            return
        self.decision = step

    def _note_round(self) -> None:
        self._ends.append((len(self._drive.record.uplinks), len(self._answers)))
        size, slot = self._scheduler.group_size, self._drive.record.broadcasts[-1][0]
        self._changes = with_group_size(self._changes, slot, size, self.scenario.group_size)

    @property
    def answers(self) -> Sequence[Checked]:
        """The answers so far."""
        return tuple(self._answers)

    def answers_of(self, rounds: int) -> Sequence[Checked]:
        """Return the answers that so many rounds took."""
        return tuple(self._answers[: self._ends[rounds - 1][1]] if rounds else ())

    @property
    def record(self) -> Record:
        """The completed rounds so far, in plain lists."""
        return self._drive.record

    @property
    def at_end_of_round(self) -> bool:
        """True if the open decision is about the next round, and all uplinks of this one have arrived."""
        return self.decision is not None and self.decision.kind in OF_ROUNDS and self._drive.has_started

    def uplinks(self, round_number: int) -> Sequence[Uplink]:
        """Return the uplinks of a round in the order of timelines; of the present one those so far."""
        if round_number == self.rounds:
            rows: Sequence[Uplink] = self._drive.uplinks_in_round
        else:
            first = self._ends[round_number - 1][0] if round_number else 0
            rows = self.record.uplinks[first : self._ends[round_number][0]]
        return in_order(rows)

    def repeats_of(self, round_number: int) -> Sequence[Wait]:
        """Return the models that were sent again in a completed round: (device, version, start, end)."""
        begin = self.record.broadcasts[round_number - 1][1] if round_number else 0
        end = self.record.broadcasts[round_number][0]
        return [repeat for repeat in self.record.repeats if begin <= repeat[2] < end]

    @property
    def slot(self) -> int:
        """The slot of the open decision; at the end that at which the last round is complete."""
        if self.decision is not None:
            return self.decision.slot
        return self._drive.record.broadcasts[-1][1] if self.rounds else 0

    @property
    def rounds(self) -> int:
        """Rounds completed so far."""
        return len(self._drive.record.broadcasts)

    @property
    def group_sizes(self) -> Sequence[int]:
        """Sizes that groups may have; if they are decided, the least and the largest."""
        return (1, self.scenario.devices) if "group_size" in self._kinds else self.scenario.group_sizes

    @property
    def timeline(self) -> Timeline:
        """The completed rounds so far; group sizes that were decided are changes of its scenario."""
        scenario = self.scenario
        if "group_size" in self._kinds:
            scenario = replace(scenario, group_size_changes=tuple(self._changes))
        delay = None if "delay" in self._kinds else self._drive.delivery.delay
        record = self._drive.record
        if not record.receivers:  # those of w_0 are not decided yet
            record = record._replace(receivers=[()])
        return Timeline.of(scenario, self._policy.name, delay, record, self.fleet)

    @property
    def arrived(self) -> NDArray[np.int64]:
        """Updates of each device that have arrived so far: device n in entry n−1."""
        return self._of_devices(0, 0)

    @property
    def ages(self) -> NDArray[np.int64]:
        """Rounds since the round of each device's last update; k+1 in round k if there was none."""
        return self._scheduler.round - self._of_devices(1, -1)

    def _of_devices(self, column: int, otherwise: int) -> NDArray[np.int64]:
        numbers = [otherwise] * self.scenario.devices
        for device, history in self._scheduler.arrived.items():
            numbers[device - 1] = history[column]
        return np.array(numbers, dtype=np.int64)

    @property
    def snr_db(self) -> Floats:
        """The SNR of each device's uplink now; equal numbers over a link without SNR."""
        return self.link.snr_db(self.slot)

    @property
    def joules(self) -> Floats:
        """What each device's battery holds now; infinity without batteries."""
        return np.array(self._drive.joules(self.slot))


def _kinds(decide: DecisionKind | Collection[DecisionKind]) -> frozenset[DecisionKind]:
    kinds = (decide,) if isinstance(decide, str) or not isinstance(decide, Collection) else tuple(decide)
    for kind in kinds:
        if kind not in KINDS:
            raise InputError("decide", kind, f"one of {', '.join(KINDS)}")
    if not kinds:
        raise InputError("decide", "nothing", f"one of {', '.join(KINDS)}, or several")
    return frozenset(kinds)


def _refuse_decided_twice(
    kinds: Collection[DecisionKind], scenario: Scenario, policy: Policy, delivery: Delivery
) -> None:
    """Raise an InputError if a decision is not possible with a policy, or taken already."""
    participation = getattr(policy, "participation", "round-robin")
    if "participants" in kinds and type(delivery) is not Participants:
        raise InputError("decide", "participants", "used with sync: other policies book every sender")
    if "participants" in kinds and participation != "round-robin":
        raise ConflictError("participation", "decide", "participants are decided here")
    if "delay" in kinds and type(delivery) is not FixedDelay:
        raise InputError("decide", "delay", "used with async, or idfl with a delay in rounds")
    if "sender" in kinds and policy.selection is not first_ready:
        raise ConflictError("selection", "decide", "the sender is decided here")
    if "sender" in kinds and delivery.turns is not None:
        raise InputError("delay", "auto", "a number of rounds: just-in-time delivery plans who sends")
    if "group_size" in kinds and scenario.group_size_changes:
        raise ConflictError("group_size_changes", "decide", "the group size is decided here")


_USED_WITH: Mapping[DecisionKind, str] = {
    "blocks": "used with access ofdma: no other link divides the band in groups",
    "power": "used with access ofdma or noma; ofdma of 1 device and 1 block is a device alone",
}


def _refuse_given(kinds: Collection[DecisionKind], link: Link) -> None:
    """Raise an InputError if the link cannot be told what devices of a group get, or has decided it."""
    allocates: Mapping[str, str | None] = getattr(link, "allocates", {})
    for kind in OF_GROUPS:
        if kind not in kinds:
            continue
        if kind not in allocates:
            raise InputError("decide", kind, _USED_WITH[kind])
        if (option := allocates[kind]) is not None:
            raise ConflictError(option, "decide", f"{kind} is decided here")
