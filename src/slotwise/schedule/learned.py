"""Decisions by what is learned: who takes part in a round of synchronous FL, and group sizes.

One of them is one class and its line in `PARTICIPANTS` or `GROUP_RULES`. They decide by what the server
knows: losses and norms of the last updates of devices. A device that was never heard counts as the best.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.base.random_streams import SchedulePurpose, chance
from slotwise.base.user_code import accepts
from slotwise.options import Choice, Derived, Range
from slotwise.options.checks import LARGEST, Value
from slotwise.schedule.decisions import Decision
from slotwise.schedule.learning_state import Learning

Scores = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LearnedParticipants(Value, ABC):
    """Chooses the participants of a round by what is known of the learning."""

    depends_on_seed: ClassVar[bool] = True
    sees_losses: ClassVar[bool] = True
    seed: Annotated[int, Derived()] = 0

    @abstractmethod
    def __call__(self, decision: Decision, learning: Learning) -> Sequence[int]:
        """Return the participants."""

    def refuse_fewer_than(self, participants: int) -> None:
        """Raise an InputError if there are fewer candidates than participants."""

    def drawn(self, decision: Decision, weights: Mapping[int, float]) -> list[int]:
        """Return the devices in a random order: one after another, with probability proportional to weight.

        Efraimidis and Spirakis, 2006: by falling log(u) / weight, with a number u for each device.
        """
        key = self.seed, SchedulePurpose.PARTICIPANTS, decision.round

        def race(device: int) -> float:
            weight = weights[device]
            number = max(chance(*key, device), 2.0**-54)
            return -inf if weight <= 0 else log(number) / weight if weight < inf else number

        return sorted(weights, key=lambda device: (-race(device), device))


def _refuse_fewer(name: str, candidates: int, participants: int) -> None:
    if candidates < participants:
        raise InputError(name, candidates, f"at least {participants}, the group size")


def largest(scores: Mapping[int, float], count: int) -> list[int]:
    """Return the devices with the largest scores; ties go to the lower index."""
    return sorted(scores, key=lambda device: (-scores[device], device))[:count]


def known(scores: Scores, devices: Sequence[int]) -> dict[int, float]:
    """Return the scores of some devices; of those never heard infinity."""
    return {n: inf if np.isnan(scores[n - 1]) else float(scores[n - 1]) for n in devices}


@dataclass(frozen=True, kw_only=True)
class PowerOfChoice(LearnedParticipants):
    """The largest losses among some candidates, drawn in proportion to their samples.

    Power-of-choice: Cho, Wang and Joshi, AISTATS 2022; here its variant rpow-d, with the last losses that
    the devices reported, so that nothing has to be sent to ask for them.

    Attributes:
        choice_candidates: Devices drawn in each round, of which those with the largest losses take part: d
            of power-of-choice, at least the group size.
    """

    choice_candidates: Annotated[int, Range(least=1, most=LARGEST)] = 20

    def refuse_fewer_than(self, participants: int) -> None:
        """Raise an InputError if there are fewer candidates than participants."""
        _refuse_fewer("choice_candidates", self.choice_candidates, participants)

    def __call__(self, decision: Decision, learning: Learning) -> Sequence[int]:
        """Return the participants."""
        samples = {n: float(learning.samples[n - 1]) for n in decision.allowed}
        candidates = self.drawn(decision, samples)[: max(self.choice_candidates, decision.count)]
        return largest(known(learning.losses, candidates), decision.count)


@dataclass(frozen=True, kw_only=True)
class LossProportional(LearnedParticipants):
    """Devices drawn in proportion to samples times loss, as in active federated learning.

    After Goetz et al., 2019 (arXiv 1909.12641), who draw by a valuation that grows with both.
    """

    def __call__(self, decision: Decision, learning: Learning) -> Sequence[int]:
        """Return the participants."""
        losses = known(learning.losses, decision.allowed)
        weights = {n: max(loss, 0.0) * float(learning.samples[n - 1]) for n, loss in losses.items()}
        return self.drawn(decision, weights)[: decision.count]


@dataclass(frozen=True, kw_only=True)
class UpdateNorm(LearnedParticipants):
    """The largest norms of updates among the devices with the best channels.

    BC-BN2 of Amiri, Gündüz, Kulkarni and Poor, 2021 (IEEE Trans. Wireless Commun. 20(6)), with the norm of
    each device's last update. With one local step the update is the gradient times the step size.

    Attributes:
        norm_candidates: Devices with the best channels, of which those with the largest update norms take
            part, at least the group size; as many as there are devices: the channel does not matter.
    """

    depends_on_seed: ClassVar[bool] = False
    sees_losses: ClassVar[bool] = False
    norm_candidates: Annotated[int, Range(least=1, most=LARGEST)] = 20

    def refuse_fewer_than(self, participants: int) -> None:
        """Raise an InputError if there are fewer candidates than participants."""
        _refuse_fewer("norm_candidates", self.norm_candidates, participants)

    def __call__(self, decision: Decision, learning: Learning) -> Sequence[int]:
        """Return the participants."""
        channel = {one.device: one.snr_db for one in decision.waiting}
        candidates = largest(channel, max(self.norm_candidates, decision.count))
        return largest(known(learning.norms, candidates), decision.count)


@dataclass(frozen=True, kw_only=True)
class Oort(LearnedParticipants):
    """High utilities are exploited, and some devices that were never heard are explored.

    Oort: Lai, Zhu, Madhyastha and Chowdhury, OSDI 2021. The utility is samples times loss, plus
    sqrt(0.1 log k / k') for a device last heard in round k', and is multiplied by (T/t)^alpha if an uplink
    takes t slots, more than T. Of the devices above 95 % of the utility that just takes part, participants
    are drawn in proportion to it. Here the loss is the mean of the device, where Oort has the root of the
    mean of squared losses of samples, and t is the uplink's typical slots.

    Attributes:
        oort_exploration: Share of the participants that is explored at first; it falls by 2 % each round,
            to 0.2 at the least.
        oort_slots: Slots of an uplink, T, beyond which the utility falls.
        oort_penalty: Exponent alpha of the penalty for longer uplinks.
    """

    oort_exploration: Annotated[float, Range(least=0.0, most=1.0)] = 0.9
    oort_slots: Annotated[int, Range(least=1, most=LARGEST)] = 1
    oort_penalty: Annotated[float, Range(least=0.0, most=100.0)] = 2.0

    def __call__(self, decision: Decision, learning: Learning) -> Sequence[int]:
        """Return the participants."""
        utilities, new, k = {}, {}, decision.round
        for one in decision.waiting:
            loss, slots = float(learning.losses[one.device - 1]), one.planned_slots
            slowness = min(1.0, self.oort_slots / slots) ** self.oort_penalty
            if np.isnan(loss):
                new[one.device] = slowness
                continue
            heard = max(1, k - one.age)  # rounds counted from 1
            bonus = sqrt(0.1 * log(max(1, k)) / heard)
            utilities[one.device] = max(0.0, loss * int(learning.samples[one.device - 1]) + bonus) * slowness
        share = max(min(0.2, self.oort_exploration), self.oort_exploration * 0.98**k)
        exploring = min(len(new), max(ceil(share * decision.count), decision.count - len(utilities)))
        chosen = self._exploited(decision, utilities, decision.count - exploring)
        return [*chosen, *self.drawn(decision, new)[: decision.count - len(chosen)]]

    def _exploited(self, decision: Decision, utilities: Mapping[int, float], count: int) -> list[int]:
        """Return devices drawn by utility among those above 95 % of the one that just takes part."""
        if not count or not utilities:
            return []
        ranked = largest(utilities, len(utilities))
        cutoff = 0.95 * utilities[ranked[min(count, len(ranked)) - 1]]
        return self.drawn(decision, {n: u for n, u in utilities.items() if u >= cutoff})[:count]


@dataclass(frozen=True, kw_only=True)
class ShrinkWhenStalled(Value):
    """The group size is multiplied by a factor whenever the loss has stopped to fall.

    AdaComm of Wang and Joshi, MLSys 2019, shrinks the communication period so: after each interval it follows
    the loss, and is multiplied by a constant if that has not fallen. Here the interval is in rounds, and the
    group size shrinks: small groups end best, and large ones start fast.

    Attributes:
        stall_rounds: Rounds whose mean loss is compared with that of as many rounds before.
        stall_factor: What the group size is multiplied with, if the mean loss has not fallen; rounded up.
    """

    sees_losses: ClassVar[bool] = True
    stall_rounds: Annotated[int, Range(least=1, most=500)] = 20
    stall_factor: Annotated[float, Range(above=0.0, below=1.0)] = 0.5

    def __call__(self, decision: Decision, learning: Learning) -> int:
        """Return the next group size."""
        rounds, size = self.stall_rounds, decision.group_size
        if decision.round % rounds or decision.round < 2 * rounds:
            return size
        last, before = learning.round_losses[-rounds:], learning.round_losses[-2 * rounds : -rounds]
        # Rounds without an update have no loss.
        if np.isnan(last).all() or np.isnan(before).all() or np.nanmean(last) < np.nanmean(before):
            return size
        return min(size, ceil(self.stall_factor * size))


PARTICIPANTS: Mapping[str, Any] = {
    "power-of-choice": PowerOfChoice,
    "oort": Oort,
    "update-norm": UpdateNorm,
    "loss-proportional": LossProportional,
}
FIXED = "fixed"
GROUP_RULES: Mapping[str, Any] = {FIXED: FIXED, "shrink-when-stalled": ShrinkWhenStalled}
GROUP_RULE = Choice("group_rule", GROUP_RULES, own=(2,))
GroupRuleChoice = Annotated[Any, GROUP_RULE]


def decides(function: object) -> bool:
    """Return whether a function is an `Agent`: it takes a decision and what is known of the learning."""
    if isinstance(function, LearnedParticipants | ShrinkWhenStalled):
        return True
    return callable(function) and accepts(function, 2) and not accepts(function, 3)
