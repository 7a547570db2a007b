"""Aggregator: makes each model from the updates of a round, and rolls back from models that are bad."""

from __future__ import annotations

import numpy as np

from slotwise.aggregation import Contribution, RuleState, Vector, next_model
from slotwise.aggregation.norm_bound import NormBounded, RoundNorms, only_norms
from slotwise.live.protocol import Label
from slotwise.live.server.model_health import MAX_UNEXPLAINED, Rollback
from slotwise.live.server.monitor import DeviceMonitor
from slotwise.live.server.penalties import LIMIT
from slotwise.schedule import Event, Joined, Left


class NotFinite(Exception):
    """The model is not finite any more, and there is none to go back to."""


class Aggregator:
    """Collects the updates of the current round.

    A roll-back makes the next model from the newest good one. Devices that train on a bad model are booked
    for the next one, as if they had left and come back; `take_rebooked` returns that to the Scheduler.
    """

    def __init__(self, devices: DeviceMonitor) -> None:
        self._devices, self._state, self._log = devices, devices.state, devices.log
        self._rule = NormBounded(devices.spec.aggregation, devices.spec.clip_norm)
        self._contributions: list[Contribution] = []
        self._bad_evaluations: list[int] = []
        self._pending: tuple[int, int] | None = None  # the good model, and the first bad one
        self._rebooked: list[Event] = []

    def add(self, label: Label, update: Vector) -> None:
        """Take an update of the current round."""
        state, device = self._state, label.device
        samples = self._devices.spec.sample_count(device)
        start, age = state.models[label.version], label.round - label.version
        self._contributions.append(Contribution(update, age, start, device, label.round, samples))
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
            good, below = pending
            # Round less staleness is the version that an update started on.
            base, used = state.models[good], [c for c in used if c.round - c.staleness < below]
            rollback = Rollback(version, good, below)
            health.roll_back(rollback, explained=bool(health.suspects(below)))
            rule_state = only_norms(rule_state)  # the rule's own state may be spoiled like the model
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
            self._log.warning("clipped", device=device, round=round_number, norm=norm, bound=bound)
