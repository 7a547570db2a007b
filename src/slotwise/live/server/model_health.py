"""ModelHealth: which models devices can train on, and which are bad; and the norms of the updates in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from slotwise.aggregation.norm_bound import RoundNorms

SUSPICIOUS = 3.0  # an update so many times as long as the median may have spoiled a model
ACCOMPLICES = 3.0  # suspects are those within this factor of the longest update
MAX_UNEXPLAINED = 3  # roll-backs without a suspect; then the training has diverged


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
        self.not_finite.setdefault(device, []).append(version)

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
        self.recent = [row for row in self.recent if row[0] >= good]
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
