"""Aggregator: makes each model from the updates of a round, and rolls back from models that are bad."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotwise.aggregation import Contribution, RuleState, Vector, next_model
from slotwise.aggregation.norm_bound import NormBounded, RoundNorms, only_norms
from slotwise.live.protocol import Label
from slotwise.live.server.device_state import LIMIT
from slotwise.schedule import Event, Joined, Left

if TYPE_CHECKING:
    from slotwise.live.server.monitor import DeviceMonitor

SUSPICIOUS = 3.0  # an update so many times as long as the median may have spoiled a model
ACCOMPLICES = 3.0  # suspects are those within this factor of the longest update
MOST_RECENT = 1000  # updates remembered that may have spoiled a model; more if a round has more
MAX_UNEXPLAINED = 3  # roll-backs without a suspect; then the training has diverged


class NotFinite(Exception):
    """The model is not finite any more, and there is none to go back to."""


class Aggregator:
    """Collects the updates of the current round.

    A roll-back makes the next model from the newest good one. Devices that train on a bad model are booked
    for the next one, as if they had left and come back; `take_rebooked` returns that to the Scheduler.
    """

    def __init__(self, devices: DeviceMonitor) -> None:
        self._devices, self._state, self._log = devices, devices.state, devices.log
        self._rule = NormBounded(devices.spec.aggregation, devices.spec.clip_norm, devices.spec.clip_key)
        self._contributions: list[Contribution] = []
        self._bad_evaluations: list[int] = []
        self._pending: tuple[int, int] | None = None  # the good model, and the first bad one
        self._rebooked: list[Event] = []

    def add(self, label: Label, update: Vector, slots: tuple[int, int]) -> None:
        """Take an update of the current round, sent in slots [start, end)."""
        state, device = self._state, label.device
        samples, devices = self._devices.spec.sample_count(device), self._devices.spec.fleet.devices
        start, age = state.models[label.version], label.round - label.version
        radio = self._devices.spec.radio.reception(device, *slots)
        sent = Contribution(update, age, start, device, label.round, samples, devices=devices, uplink=radio)
        self._contributions.append(sent)
        state.health.note_finite(device, label.version)

    def take_rebooked(self) -> list[Event]:
        """Return the devices that left and came back, and forget them."""
        rebooked, self._rebooked = self._rebooked, []
        return rebooked

    # Bad models

    def note_bad_evaluation(self, version: int) -> None:
        """Note that the evaluation of a model was not finite."""
        self._bad_evaluations.append(version)

    async def check_evaluations(self) -> None:
        """Roll back if a model turned out to be bad when it was evaluated."""
        while self._bad_evaluations:
            version = self._bad_evaluations.pop(0)
            if not self._is_replaced(version):
                await self._roll_back(version, "its evaluation is not finite")

    async def take_not_finite(self, device: int, version: int) -> None:
        """Decide whether a device or its model is to blame for an update that is not finite."""
        health, connected = self._state.health, self._state.presence.connected
        # If the model is known to be bad, its updates are no fault of the devices.
        if not self._is_replaced(version):
            health.note_not_finite(device, version)
            bad = health.bad_version(connected)
            if bad is not None:
                await self._roll_back(bad, f"{len(health.not_finite)} devices could not train on it")
            else:
                await self._devices.penalise(device, "update is not finite")
        self._rebook(device)  # it would send the same numbers again

    def _is_replaced(self, version: int) -> bool:
        pending = self._pending is not None and version >= self._pending[1]
        return pending or self._state.health.is_void(version)

    def _rebook(self, device: int) -> None:
        if device in self._state.presence.connected and device in self._state.assignments.work:
            self._state.assignments.drop(device)
            self._rebooked += [Left(device), Joined(device)]

    async def _roll_back(self, bad: int, reason: str) -> None:
        """Make the next model from the newest good one, and exclude those who sent much too long updates."""
        state, health = self._state, self._state.health
        suspects = health.suspects(bad)
        # There is no model to go back to, or going back without anyone to exclude did not help before.
        if bad <= health.good or (not suspects and health.unexplained >= MAX_UNEXPLAINED):
            self._log.error("diverged", model=bad, reason=reason)
            raise NotFinite
        self._pending = health.good, bad
        fields = {"suspects": ",".join(map(str, sorted(suspects))) or "none", "reason": reason}
        self._log.error("rolled_back", model=bad, to=health.good, **fields)
        # These devices were penalised, but their model was to blame.
        for device, versions in health.not_finite.items():
            state.penalties.refund(device, len(versions))
        for device in [n for n, work in state.assignments.work.items() if work.version >= bad]:
            self._rebook(device)
        # The only await comes last: messages that are read meanwhile find a consistent state.
        await self._blame(suspects)

    async def _blame(self, suspects: dict[int, float]) -> None:
        for device, norm in suspects.items():
            reason = f"its update of norm {norm:.3g} is suspected to have spoiled the model"
            await self._devices.penalise(device, reason, points=LIMIT)

    # The next model

    async def next_model(self, version: int) -> Vector:
        """Apply the updates of the round; the model becomes ``version``.

        Raises:
            NotFinite: the sum of the updates is not finite, and none of them is suspiciously long.
        """
        state, health = self._state, self._state.health
        used, self._contributions = self._contributions, []
        pending, self._pending = self._pending, None
        base, rule_state = state.models[version - 1], state.rule_state
        if pending is not None:
            rollback = Rollback(version, *pending)
            base, used, rule_state = rollback.begin(state.models, used, rule_state)
            health.roll_back(rollback, explained=bool(health.suspects(rollback.below)))
        # An overflow is checked below; numpy need not warn of it.
        with np.errstate(over="ignore", invalid="ignore"):
            model, rule_state = next_model(self._rule, base, used, rule_state)
        # Before the check, because the norms of this round show who is suspected.
        self._note_norms(version - 1, used, rule_state)
        if not np.isfinite(model).all():
            suspects = health.suspects(version)
            if not suspects:
                self._log.error("diverged", model=version, reason="the sum of the updates is not finite")
                raise NotFinite
            good = version - 1 if pending is None else pending[0]
            health.roll_back(Rollback(version, good, 0), explained=True)
            # The round has no effect: the model repeats its base, and the norms of its updates are forgotten.
            model, rule_state = base, only_norms(state.rule_state)
            self._log.error("rolled_back", model=version, to=good, suspects=",".join(map(str, suspects)))
            await self._blame(suspects)
        state.rule_state = rule_state
        return model

    def _note_norms(self, round_number: int, used: list[Contribution], rule_state: RuleState) -> None:
        if not used:
            return
        found = RoundNorms.of(rule_state, len(used))
        devices = [contribution.device for contribution in used]
        for device, (norm, bound) in self._state.health.note_norms(round_number, devices, found).items():
            now, log = self._devices.clock.now(), self._log
            log.repeated("warning", "clipped", now, device=device, round=round_number, norm=norm, bound=bound)


class Rollback(NamedTuple):
    """A model that repeats an earlier one, because those after it were bad.

    Attributes:
        version: The model made by the roll-back.
        good: The model that it begins with.
        below: Updates of its round that started on a model before this one are applied; the others are not.
    """

    version: int
    good: int
    below: int

    def begin(
        self, models: Mapping[int, Vector], used: Iterable[Contribution], rule_state: RuleState
    ) -> tuple[Vector, list[Contribution], RuleState]:
        """Return what the round begins with instead: model, updates, and state of the rule."""
        # Round less staleness is the version that an update started on. The rule's own state may be spoiled
        # like the model.
        kept = [sent for sent in used if sent.round - sent.staleness < self.below]
        return models[self.good], kept, only_norms(rule_state)


class DeviceNorms(NamedTuple):
    """Norms of the updates of one device, as they were sent."""

    updates: int = 0
    clipped: int = 0
    last: float = 0.0
    largest: float = 0.0
    total: float = 0.0

    @property
    def mean(self) -> float:
        """Mean norm of all updates of the device."""
        return self.total / self.updates if self.updates else 0.0

    def with_update(self, norm: float, bound: float) -> DeviceNorms:
        """Return the norms with one more."""
        clipped = self.clipped + (norm > bound)
        return DeviceNorms(self.updates + 1, clipped, norm, max(self.largest, norm), self.total + norm)


class ModelHealth:
    """Owner of what updates say about the models they started on.

    A device whose update is not finite may be broken, or its model is. The model is bad if more than half of
    the connected devices, two at least, could not train on it or on models after it. It is good if updates of
    two devices, which started on it or later, were finite: one device alone can vouch for no model.

    Attributes:
        finite: by device, the newest model from which it has sent a finite update.
        not_finite: by device, the models from which it has sent one that is not, since the last roll-back.
        norms: of all updates, by device.
        recent: round, device, norm and median of the updates that may turn out to have spoiled a model.
        rollbacks: those so far.
        unexplained: roll-backs for which no update was suspiciously long.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        saved = saved or {}
        self.finite = {int(n): int(version) for n, version in saved.get("finite", {}).items()}
        self.not_finite: dict[int, list[int]] = {}
        self.norms = {int(n): DeviceNorms(*norms) for n, norms in saved.get("norms", {}).items()}
        self.recent = [(int(k), int(n), float(a), float(b)) for k, n, a, b in saved.get("recent", [])]
        self.rollbacks = [Rollback(*rollback) for rollback in saved.get("rollbacks", [])]
        self.unexplained = int(saved.get("unexplained", 0))

    def saved(self) -> dict[str, Any]:
        """Return everything that outlives the server, as plain values."""
        # Without `not_finite`: after a restart devices train again, and report it again.
        return {
            "finite": dict(self.finite),
            "norms": dict(self.norms),
            "recent": list(self.recent),
            "rollbacks": list(self.rollbacks),
            "unexplained": self.unexplained,
        }

    def vouched(self) -> list[int]:
        """Return the models to keep: the newest from which an update was finite, and the newest good one."""
        # Two devices have trained on the second newest or later, so it is good; the first model always is.
        return sorted([*self.finite.values(), 0, 0], reverse=True)[:2]

    @property
    def good(self) -> int:
        """The newest model that is known to be good."""
        return self.vouched()[-1]

    def note_finite(self, device: int, version: int) -> None:
        """Note that a device has sent a finite update."""
        self.finite[device] = max(version, self.finite.get(device, 0))
        self.not_finite.pop(device, None)

    def note_not_finite(self, device: int, version: int) -> None:
        """Note that a device could not train on a model, or says so."""
        # As many as exclude a device: more are not refunded.
        self.not_finite[device] = [*self.not_finite.get(device, []), version][: int(LIMIT)]

    def bad_version(self, connected: Collection[int]) -> int | None:
        """Return the first model that is bad, if the devices that could not train agree on that."""
        failed = {n: min(versions) for n, versions in self.not_finite.items() if n in connected}
        if len(failed) < 2 or 2 * len(failed) <= len(connected):
            return None
        # The earliest one, because the models after it were made from it.
        return min(failed.values())

    def note_norms(
        self, round_number: int, devices: Sequence[int], found: RoundNorms
    ) -> dict[int, tuple[float, float]]:
        """Record the norms of a round; return those that were clipped with their bounds, by device."""
        clipped = {}
        for device, norm, bound in zip(devices, found.norms, found.bounds, strict=True):
            self.norms[device] = self.norms.get(device, DeviceNorms()).with_update(norm, bound)
            if norm > bound:
                clipped[device] = norm, bound
            self.recent.append((round_number, device, norm, found.median))
        good = self.good
        # Round k makes model k + 1, so updates of earlier rounds are in models that are known to be good.
        # With one device alone no model is known to be good, so the oldest are forgotten.
        recent = [row for row in self.recent if row[0] >= good]
        self.recent = recent[-max(MOST_RECENT, len(devices)) :]
        return clipped

    def suspects(self, bad: int) -> dict[int, float]:
        """Return the devices with the longest updates in the models up to ``bad``, and how long they were.

        Only updates that are much longer than the median are suspicious. Of several, those that are much
        shorter than the longest are not: they may belong to honest devices.
        """
        long = [(n, norm) for k, n, norm, median in self.recent if k < bad and norm > SUSPICIOUS * median]
        longest = max((norm for _, norm in long), default=0.0)
        return {device: norm for device, norm in long if ACCOMPLICES * norm >= longest}

    def roll_back(self, rollback: Rollback, *, explained: bool) -> None:
        """Forget what was known about the models that are not used any more."""
        self.rollbacks.append(rollback)
        self.unexplained += not explained
        self.finite = {n: min(version, rollback.good) for n, version in self.finite.items()}
        self.not_finite, self.recent = {}, []

    def is_void(self, version: int) -> bool:
        """Return whether a roll-back has replaced a model."""
        return any(rollback.good < version < rollback.version for rollback in self.rollbacks)
