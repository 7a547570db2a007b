"""Attacks on a training: some devices send something else than their update.

To add an attack, write a class with a method ``sent`` and name it in `ATTACKS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.randomness import LARGEST_SEED, Purpose, generator
from slotwise.learning.task import Task, TaskWrapper, TrainingStart
from slotwise.options import Choice, Range
from slotwise.options.checks import LARGEST_NUMBER, Value, whole


@dataclass(frozen=True)
class NoAttack:
    """The usual case: all devices send their own updates."""

    def attackers(self, devices: int, seed: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return an empty tuple: there are no attackers."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Attack(Value, ABC):
    """A share of the devices attacks.

    Attributes:
        share: Share of the devices that attack; the seed decides which.
        scale: Size of what attackers send, as a multiple of their update.
    """

    share: Annotated[float, Range(above=0, most=1)] = 0.2
    scale: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 10.0

    def attackers(self, devices: int, seed: int) -> tuple[int, ...]:
        """Return the devices that attack, drawn from the seed: the share of all devices, rounded.

        Raises:
            InputError: the share is less than one device.
        """
        count = round(self.share * devices)
        if count == 0:
            raise InputError("attack_share", self.share, f"at least one of the {devices} devices")
        order = generator(seed, Purpose.ATTACK).permutation(devices)
        return tuple(sorted((order[:count] + 1).tolist()))

    @abstractmethod
    def sent(self, update: Vector, seed: int, start: TrainingStart) -> Vector:
        """Return what an attacker sends instead of its update."""


class SignFlip(Attack):
    """Attackers send their update times minus the scale."""

    def sent(self, update: Vector, seed: int, start: TrainingStart) -> Vector:  # noqa: ARG002
        """Return the update times minus the scale."""
        return (-self.scale * update).astype(np.float32)


class Noise(Attack):
    """Attackers send normal random numbers of the scale times the size of their update."""

    def sent(self, update: Vector, seed: int, start: TrainingStart) -> Vector:
        """Return random numbers, a function of seed, device and training."""
        size = float(np.sqrt(np.mean(np.square(update, dtype=np.float64))))
        draw = generator(seed, Purpose.ATTACK, start.device, start.training)
        return (self.scale * size * draw.standard_normal(len(update))).astype(np.float32)


ATTACKS: Mapping[str, type[NoAttack | Attack]] = {"none": NoAttack, "sign-flip": SignFlip, "noise": Noise}
ATTACK = Choice("attack", ATTACKS, prefix="attack_")
AttackChoice = Annotated[NoAttack | Attack, ATTACK]


class Attacked(TaskWrapper):
    """A task some of whose devices attack."""

    def __init__(self, task: Task, attack: Attack, devices: int, seed: int = 0) -> None:
        """Draw the attackers among ``devices``, and noise, from the seed."""
        super().__init__(CheckedTask.of(task))
        self._attack, self._seed = attack, whole("seed", seed, 0, LARGEST_SEED)
        self.attackers = frozenset(attack.attackers(devices, seed))

    def sent(self, update: Vector, start: TrainingStart) -> Vector:
        """Return the update, or what an attacker makes of it."""
        if start.device not in self.attackers:
            return update
        with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
            return self._attack.sent(update, self._seed, start)
