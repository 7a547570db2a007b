"""TrainingEnv: who takes part in a round, or how many, as an environment of Gymnasium that trains along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import ConflictError, InputError
from slotwise.base.extras import importing
from slotwise.gym.device_table import COLUMNS, DeviceTable, mask_of, place_of
from slotwise.learning import Diverged, History, Task, Training
from slotwise.options import loaded
from slotwise.options.checks import whole_number
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task
from slotwise.schedule import Decision, Episode, Selection

with importing():
    import gymnasium
    from gymnasium import spaces

Decide = Literal["group_size", "participants"]
Observation = NDArray[np.float32]
LARGEST_EPISODE_SEED = 2**32 - 1
DIVERGED = 10.0  # times the first loss: more counts as so much, as does a training that diverged
# Little data and a small network: an episode takes a second or two.
SMALL: Mapping[str, Any] = {
    **{"devices": 10, "group_size": 2, "compute_slots": 5, "deadline": 300},
    **{"network": "logistic", "samples_per_device": 50, "batch_size": 16},
}


class TrainingEnv(gymnasium.Env[Observation, Any]):
    """``slotwise/Training-v0``: each step is the decision about a round, and its model is trained along.

    The observation has the share of the deadline that has passed, the loss of the newest model and the group
    size as shares of the first loss and of all devices, and then a `DeviceTable`, row by row. The reward is
    by how much the loss has fallen, as a share of the first: the return is 1 minus the loss at the deadline
    in such shares, if the first decision comes before the first round. Training along ``episode.timeline``
    gives the same model. Memory: all models of an episode are kept.

    Attributes:
        episode: The schedule as it is decided.
        history: The training so far.
    """

    def __init__(
        self,
        config: RunConfig | Mapping[str, Any] = SMALL,
        *,
        decide: Decide = "group_size",
        sizes: Sequence[int] | None = None,
        workers: int = 1,
        render_mode: str | None = None,
    ) -> None:
        """Take the configuration of a run, or its options by name.

        Args:
            config: What is trained, and all that is not decided.
            decide: "group_size": an action is the place of the size of the next round in ``sizes``;
                "participants": an action has a number for each device, and those with the largest take part.
            sizes: The group sizes to choose from. Default: 1, 2, …, N.
            workers: Parallel local trainings; the result does not depend on it.
            render_mode: None: there is nothing to render.
        """
        if decide not in get_args(Decide):
            raise InputError("decide", decide, " or ".join(get_args(Decide)))
        self.config = _config_of(config, decide)
        self._decide, self._workers, self.render_mode = decide, workers, render_mode
        devices = self.config.channel.devices
        if sizes is not None and decide == "participants":
            raise ConflictError("sizes", "decide", "the number of participants is the group size")
        self.sizes = tuple(range(1, devices + 1)) if sizes is None else _sizes_of(sizes, devices)
        self.observation_space = spaces.Box(-1.0, DIVERGED, (3 + devices * COLUMNS,), np.float32)
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(len(self.sizes))
            if decide == "group_size"
            else spaces.Box(-1.0, 1.0, (devices,), np.float32)
        )
        self._dataset = None if self.config.model.is_own else self.config.dataset.load()
        self._begin(0)
        self._is_reset = False

    def _begin(self, seed: int) -> None:
        config = self.config.with_options(seed=seed)
        policy, fleet, link = config.ready_parts()
        self.episode = Episode(config.channel, policy, decide=self._decide, fleet=fleet, link=link)
        self._rule, self._task = loaded(config.rule), build_task(config, self._dataset)
        self._radio = config.uplink_radio(self._task.update_bits)
        self._table = DeviceTable(self.episode)
        self._loss = self._first_loss = 1.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode with a seed that follows from ``seed``, or from the episodes before."""
        super().reset(seed=seed, options=options)
        self._begin(int(self.np_random.integers(LARGEST_EPISODE_SEED)))
        if self.episode.decision is None:
            raise InputError("deadline", self.config.deadline, "later: no round can be decided before it")
        self.history, self._is_reset = self._follow(None), True
        self._loss = self._first_loss = self.history.points[0].loss
        self._loss = min(self.history.points[-1].loss, DIVERGED * self._first_loss)
        return self._seen()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the decision, train up to the next, and evaluate the newest model."""
        decision, before = self._open_decision, self._loss
        self.episode.answer(self._answer(decision, action))
        try:
            if self.episode.rounds > self.history.rounds:
                self.history = self._follow(self.history)
            loss, diverged = self.history.points[-1].loss, False
        except Diverged:
            loss, diverged = np.inf, True
        self._loss = min(loss, DIVERGED * self._first_loss)
        observation, info = self._seen()
        ended = diverged or self.episode.decision is None
        return observation, (before - self._loss) / self._first_loss, ended, False, info

    def _answer(self, decision: Decision, action: Any) -> int | list[int]:
        if self._decide == "group_size":
            return self.sizes[place_of(action, len(self.sizes))]
        given, devices = np.asarray(action), self.config.channel.devices
        if given.shape != (devices,) or given.dtype.kind not in "iuf" or np.isnan(given).any():
            raise InputError("action", action, f"a number for each of {devices} devices")
        best_first = np.argsort(-given.astype(np.float64), kind="stable") + 1
        allowed = set(decision.allowed)
        return [device for device in best_first.tolist() if device in allowed][: decision.count]

    def _follow(self, before: History | None) -> History:
        """Train along the rounds that are decided; return the history with every model so far."""
        models = {} if before is None else dict(before.models)
        with Training(
            self.episode.timeline,
            self._task,
            aggregation=self._rule,
            workers=self._workers,
            resume=before,
            radio=self._radio,
        ) as training:
            models[training.rounds] = training.model
            for _ in training:
                models[training.rounds] = training.model
            # A device may still train on a model that no decided round needs.
            return replace(training.history(), models=models)

    def _seen(self) -> tuple[Observation, dict[str, Any]]:
        decision, devices = self.episode.decision, self.config.channel.devices
        slot = self.config.deadline if decision is None else decision.slot
        self._table.update(slot)
        chooses = decision is not None and decision.kind == "participants"
        mask = mask_of(decision.allowed if decision is not None and chooses else [], devices)
        shares = (
            slot / self.config.deadline,
            self._loss / self._first_loss,
            self.group_size / devices,
        )
        info = {"slot": slot, "rounds": self.episode.rounds, "loss": self._loss}
        return np.concatenate([shares, self._table.rows(mask).ravel()]).astype(np.float32), info

    @property
    def group_size(self) -> int:
        """The group size of the newest round."""
        answers = self.episode.answers
        newest = answers[-1] if answers else self.config.channel.group_size
        return newest if isinstance(newest, int) else len(newest)

    def action_like(self, selection: Selection) -> Observation:
        """Return the action for the devices that a selection chooses one after another."""
        decision, action = self._open_decision, np.full(self.config.channel.devices, -1.0, np.float32)
        if decision.kind != "participants":
            raise InputError("decide", self._decide, "participants: a selection chooses devices")
        left, last = list(decision.waiting), decision.last_sender
        for place in range(min(decision.count, len(left))):
            chosen = selection(left, decision.round, last)
            left.remove(chosen)
            last = chosen.device
            action[last - 1] = 1.0 - place / len(action)
        return action

    @property
    def task(self) -> Task:
        """The task of this episode."""
        return self._task

    @property
    def _open_decision(self) -> Decision:
        if not self._is_reset or self.episode.decision is None:
            why = "has ended" if self._is_reset else "has not begun"
            raise gymnasium.error.ResetNeeded(f"the episode {why}: call reset")
        return self.episode.decision


_SCHEDULES: Mapping[Decide, str] = {"group_size": "async", "participants": "sync"}


def _config_of(config: object, decide: Decide) -> RunConfig:
    """Return a configuration, or that of options by name; refuse what the environment does not keep to."""
    if isinstance(config, Mapping):
        config = RunConfig.from_options({"schedule": _SCHEDULES[decide], **config})
    if not isinstance(config, RunConfig):
        raise InputError("config", config, "a RunConfig, or options by name")
    if config.end.target is not None:
        raise InputError("stop_at", config.end.target, "omitted: an episode ends at its deadline")
    for kind in config.agents:
        raise ConflictError(config.name_of_agent(kind)[0], "decide", "here the agent is the environment's")
    return config


def _sizes_of(sizes: object, devices: int) -> tuple[int, ...]:
    given = sizes if isinstance(sizes, Sequence | np.ndarray) else ()
    numbers = [whole_number(size) or 0 for size in given]
    if not numbers or min(numbers) < 1 or max(numbers) > devices:
        raise InputError("sizes", sizes, f"whole numbers from 1 to {devices}")
    return tuple(numbers)
