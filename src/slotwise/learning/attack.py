"""Attacks on a training: some devices send something else than their update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from slotwise.aggregation import Vector
from slotwise.errors import InputError
from slotwise.learning.randomness import LARGEST_SEED, Purpose, generator
from slotwise.learning.task import CheckedTask, Task, TrainingResult, TrainingStart, update_of, with_update
from slotwise.scenario import LARGEST_NUMBER, check_fields, refuse_unused, whole

Attack = Literal["none", "sign-flip", "noise"]


@dataclass(frozen=True, kw_only=True)
class AttackConfig:
    """Attackers among the devices of a simulation.

    Attributes:
        attack: Updates of the attackers: sign-flip sends the update times minus the scale, noise sends
            normal random numbers of the scale times the update's size.
        attack_share: Share of the devices that attack; the seed decides which.
        attack_scale: Size of what attackers send, as a multiple of their update.
    """

    attack: Attack = "none"
    attack_share: float = 0.2
    attack_scale: float = 10.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.attack_share <= 1:
            raise InputError("attack_share", self.attack_share, "a number above 0 and at most 1")
        if not 0 < self.attack_scale <= LARGEST_NUMBER:
            allowed = f"a number above 0 and at most {LARGEST_NUMBER:g}"
            raise InputError("attack_scale", self.attack_scale, allowed)
        refuse_unused(self)

    def unused(self) -> dict[str, str]:
        """Return the options that have no effect without an attack, with the reason."""
        names = ("attack_share", "attack_scale") if self.attack == "none" else ()
        return dict.fromkeys(names, "with attack none")

    def attackers(self, devices: int, seed: int) -> tuple[int, ...]:
        """Return the devices that attack, drawn from the seed: the share of all devices, rounded.

        Raises:
            InputError: the share is less than one device.
        """
        if self.attack == "none":
            return ()
        count = round(self.attack_share * devices)
        if count == 0:
            raise InputError("attack_share", self.attack_share, f"at least one of the {devices} devices")
        order = generator(seed, Purpose.ATTACK).permutation(devices)
        return tuple(sorted((order[:count] + 1).tolist()))


class Attacked:
    """A task some of whose devices attack, as an `AttackConfig` says."""

    def __init__(self, task: Task, config: AttackConfig, devices: int, seed: int = 0) -> None:
        """Draw the attackers among ``devices``, and noise, from the seed."""
        self._task, self._config, self._seed = task, config, whole("seed", seed, 0, LARGEST_SEED)
        checked = CheckedTask.of(task)
        self.sample_count, self.devices = checked.sample_count, checked.devices
        self.attackers = frozenset(config.attackers(devices, seed))
        self.initial_model, self.evaluate = task.initial_model, task.evaluate
        self.named_arrays = task.named_arrays
        self.evaluate_devices = getattr(task, "evaluate_devices", None)
        self.one_per_process = getattr(task, "one_per_process", False)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector | TrainingResult:
        """Return what the device sends: its update, or what an attacker makes of it."""
        result = self._task.local_update(model, start)
        if start.device not in self.attackers:
            return result
        with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
            return with_update(result, self._attacked(update_of(result), start))

    def _attacked(self, update: Vector, start: TrainingStart) -> Vector:
        scale = self._config.attack_scale
        if self._config.attack == "sign-flip":
            return (-scale * update).astype(np.float32)
        size = float(np.sqrt(np.mean(np.square(update, dtype=np.float64))))
        draw = generator(self._seed, Purpose.ATTACK, start.device, start.training)
        return (scale * size * draw.standard_normal(len(update))).astype(np.float32)
