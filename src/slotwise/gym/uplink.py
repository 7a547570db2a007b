"""UplinkEnv: who sends next, as an environment of Gymnasium; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.base.extras import importing
from slotwise.gym.device_table import COLUMNS, DeviceTable, Table, mask_of, place_of
from slotwise.schedule import Decision, Episode, Selection
from slotwise.setting import Setting

with importing():
    import gymnasium
    from gymnasium import spaces

Reward = Literal["age", "rounds"]
LARGEST_EPISODE_SEED = 2**32 - 1
# A cell in which who has the best channel and who has waited longest are seldom the same device.
CELL: Mapping[str, Any] = {
    **{"devices": 10, "group_size": 5, "compute_slots": 5, "deadline": 2_000, "schedule": "async"},
    **{"radio_link": "rate-adaptive", "radio_bits": 1_000_000, "radio_broadcast_bits": 1_000_000},
}


class UplinkEnv(gymnasium.Env[Table, np.int64]):
    """``slotwise/Uplink-v0``: each step is one uplink, and the action says whose: device n is action n − 1.

    A device that does not wait for the channel cannot send: then the one that has waited longest does. The
    mask of those that wait is in ``info["action_mask"]`` and `action_masks`. The observation is a
    `DeviceTable`. An episode is truncated at the deadline; its seed draws fleet and channel anew.

    Attributes:
        episode: The schedule as it is decided; ``episode.timeline`` is its record.
    """

    def __init__(
        self,
        setting: Setting | Mapping[str, Any] = CELL,
        *,
        reward: Reward = "age",
        render_mode: str | None = None,
    ) -> None:
        """Take a setting, or its options by name.

        Args:
            setting: Devices, channel, link and schedule (async, idfl with a delay in rounds, or sync).
            reward: "age": minus the mean age of all devices in slots, so that the return is minus its sum
                from the first decision to the deadline, divided by the deadline; "rounds": rounds completed.
            render_mode: None: there is nothing to render.
        """
        if not isinstance(setting, Setting | Mapping):
            raise InputError("setting", setting, "a Setting, or options by name")
        self.setting = setting if isinstance(setting, Setting) else Setting.from_options(setting)
        if reward not in get_args(Reward):
            raise InputError("reward", reward, " or ".join(get_args(Reward)))
        self._reward, self.render_mode = reward, render_mode
        devices = self.setting.channel.devices
        self.observation_space = spaces.Box(-1.0, 1.0, (devices, COLUMNS), np.float32)
        self.action_space = spaces.Discrete(devices)
        self.episode = self._new_episode(0)
        self._is_reset = False

    def _new_episode(self, seed: int) -> Episode:
        setting = self.setting.with_options(seed=seed)
        policy, fleet, link = setting.ready_parts()
        return Episode(setting.channel, policy, decide="sender", fleet=fleet, link=link)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Table, dict[str, Any]]:
        """Begin an episode with a seed that follows from ``seed``, or from the episodes before."""
        super().reset(seed=seed, options=options)
        self.episode = self._new_episode(int(self.np_random.integers(LARGEST_EPISODE_SEED)))
        if self.episode.decision is None:
            raise InputError("deadline", self.setting.deadline, "later: no update gets ready before it")
        self._table, self._is_reset = DeviceTable(self.episode), True
        self._table.update(self.episode.slot)
        return self._seen()

    def step(self, action: np.int64) -> tuple[Table, float, bool, bool, dict[str, Any]]:
        """Let a device send; go on to the next time that the channel is free and a device waits."""
        allowed, episode, table = self._open_decision.allowed, self.episode, self._table
        slot, rounds = episode.slot, episode.rounds
        device = place_of(action, self.setting.channel.devices) + 1
        before = table.mean_age
        episode.answer(device if device in allowed else allowed[0])
        ended = episode.decision is None
        end = self.setting.deadline if ended else episode.slot
        table.update(end)
        reward = float(episode.rounds - rounds)
        if self._reward == "age":
            # Ages grow by one in every slot, until the next decision finds out whose update has arrived.
            reward = -(end - slot) * (before + (end - slot) / 2) / self.setting.deadline
        observation, info = self._seen()
        return observation, reward, False, ended, info

    def _seen(self) -> tuple[Table, dict[str, Any]]:
        decision = self.episode.decision
        allowed = [] if decision is None else decision.allowed
        mask = mask_of(allowed, self.setting.channel.devices)
        info = {"action_mask": mask, "slot": self.episode.slot, "rounds": self.episode.rounds}
        return self._table.rows(mask), info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return whether each action is a device that waits, as MaskablePPO of sb3-contrib asks for."""
        decision = self.episode.decision
        allowed = [] if decision is None else decision.allowed
        return mask_of(allowed, self.setting.channel.devices).astype(np.bool_)

    def action_like(self, selection: Selection) -> np.int64:
        """Return the action that follows a selection."""
        decision = self._open_decision
        chosen = selection(decision.waiting, decision.round, decision.last_sender)
        return np.int64(chosen.device - 1)

    @property
    def _open_decision(self) -> Decision:
        if not self._is_reset or self.episode.decision is None:
            why = "has ended" if self._is_reset else "has not begun"
            raise gymnasium.error.ResetNeeded(f"the episode {why}: call reset")
        return self.episode.decision
