"""NormBounded: any aggregation rule behind a bound on the norms of updates, as live servers apply it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.device_history import DeviceHistories
from slotwise.aggregation.rule import Aggregation, Contribution, RuleState, Vector, next_model
from slotwise.base.errors import InputError

FACTOR = 4.0  # an update may be so many times as long as the median update
WINDOW = 10  # updates that the median is taken of
FIRST = 0.1  # the first update, if it comes alone, may be so many times as long as the model
# Names in the rule's state: norms; the bounds of the last round's updates, then the median. Those of
# `DeviceHistories` begin with the same prefix.
PREFIX = "norm_bound."
NORMS, BOUNDS = f"{PREFIX}norms", f"{PREFIX}bounds"

ClipNorm = float | Literal["auto", "off"]


@dataclass(frozen=True)
class NormBounded:
    """Scale updates that are longer than a bound down to it, then apply ``rule``.

    ``clip_norm`` is the bound. "auto" takes `FACTOR` times the running median of norms: the lower median of
    the last `WINDOW` updates before the round and those of the round itself, as they were sent. So one long
    update does not raise its own bound, not even in the first round if others send in it. A first round of
    one update is bounded by `FIRST` times the norm of the model instead, unless that is zero. What a device
    pushes for in all its turns is bounded by `DeviceHistories`; ``key`` is secret from devices, so that they
    cannot hide from its sketches. "off" scales nothing.

    Norms and histories are part of the rule's state, and the result depends on nothing else: training along
    the timeline of a live run with the same bound and key gives the same models.
    """

    rule: Aggregation
    clip_norm: ClipNorm = "auto"
    key: int = 0

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model, and the state of the rule with the norms."""
        norms = np.array([norm_of(sent.update) for sent in contributions])
        window = np.concatenate([state.get(NORMS, np.empty(0)), norms])[-WINDOW - len(norms) :]
        median = float(np.sort(window)[(len(window) - 1) // 2])
        usual = self._bound(median, model, len(window))
        # NaN is above no bound: the update stays as it is, and divergence is noticed in the model.
        factors = [usual / norm if norm > usual else 1.0 for norm in norms.tolist()]
        ours: dict[str, NDArray[Any]] = {}
        if self.clip_norm == "auto":
            histories = DeviceHistories(state, self.key)
            factors = [
                histories.factor(sent.device, sent.update, factor)
                for sent, factor in zip(contributions, factors, strict=True)
            ]
            ours |= histories.state
        clipped = [_scaled(sent, factor) for sent, factor in zip(contributions, factors, strict=True)]
        found, own = next_model(self.rule, model, clipped, without_norms(state))
        bounds = [factor * norm if factor < 1 else usual for factor, norm in zip(factors, norms, strict=True)]
        # `RoundNorms.of` needs all norms of the round, even if there are more than WINDOW.
        ours[NORMS] = window[-max(WINDOW, len(norms)) :]
        ours[BOUNDS] = np.array([*bounds, median])
        return found, {**own, **ours}

    def _bound(self, median: float, model: Vector, known: int) -> float:
        if self.clip_norm == "off":
            return inf
        if self.clip_norm != "auto":
            return self.clip_norm
        first = FIRST * norm_of(model) if known == 1 else 0.0
        return first or FACTOR * median


def check_clip_norm(value: ClipNorm) -> None:
    """Raise an InputError unless ``value`` is a bound."""
    if value not in ("auto", "off") and not (isinstance(value, int | float) and 0 < value < inf):
        raise InputError("clip_norm", value, "auto, off or a finite number above 0")


def norm_of(vector: Vector) -> float:
    """Return the L2 norm, the same on every machine: the sum does not depend on a linear algebra library."""
    return float(np.sqrt(np.square(vector.astype(np.float64)).sum()))


class RoundNorms(NamedTuple):
    """Norms of a round's updates as they were sent, the bound of each, and the running median."""

    norms: list[float]
    bounds: list[float]
    median: float

    @classmethod
    def of(cls, state: RuleState, count: int) -> RoundNorms:
        """Return those of the last round, which had ``count`` updates, from the rule's state after it."""
        *bounds, median = state[BOUNDS].tolist()
        return cls(state[NORMS][-count:].tolist(), bounds, median)


def without_norms(state: RuleState) -> RuleState:
    """Return the state of the rule itself."""
    return {name: array for name, array in state.items() if not name.startswith(PREFIX)}


def only_norms(state: RuleState) -> RuleState:
    """Return the norms, without the state of the rule itself."""
    return {name: array for name, array in state.items() if name.startswith(PREFIX)}


def _scaled(sent: Contribution, factor: float) -> Contribution:
    if factor >= 1:
        return sent
    return sent._replace(update=(sent.update.astype(np.float64) * factor).astype(np.float32))
