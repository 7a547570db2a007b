"""Penalties: points for bad and missing updates, which expire; too many exclude a device for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LIMIT = 3.0  # points that exclude a device
RETURN = 2.0  # points at which it may return: one more fault excludes it again
COOL_DOWN = 20.0  # timeouts in which a point expires


class Penalties:
    """Owner of the penalty points, and of who is excluded.

    A bad or missing update costs one point, and a wait without result one point for each
    timeout. One point expires every ``cool_down`` seconds, whether the device sends good updates or not. So
    in T seconds no device can make the server wait for longer than `LIMIT` timeouts and T / `COOL_DOWN`
    seconds, apart from the wait that excludes it.

    Attributes:
        points: by device, those that have not expired.
        excluded: devices with too many points.
    """

    def __init__(self, points: Mapping[int, float] | None = None, excluded: Iterable[int] = ()) -> None:
        self.points, self.excluded = dict(points or {}), set(excluded)
        self._expired_at: float | None = None

    def add(self, device: int, points: float = 1.0) -> bool:
        """Add points; return whether the device is excluded by them now."""
        # At least one point, so that many short waits are not free.
        self.points[device] = self.points.get(device, 0.0) + max(1.0, points)
        if self.points[device] < LIMIT or device in self.excluded:
            return False
        self.excluded.add(device)
        return True

    def refund(self, device: int, points: float) -> None:
        """Take points back that the device was not to blame for."""
        self.points[device] = max(0.0, self.points.get(device, 0.0) - points)

    def expire(self, now: float, cool_down: float) -> list[int]:
        """Let points expire; return the devices that are no longer excluded."""
        # The time in which no server was running does not count.
        passed = 0.0 if self._expired_at is None else (now - self._expired_at) / cool_down
        self._expired_at = now
        self.points = {n: left - passed for n, left in self.points.items() if left > passed}
        returning = sorted(n for n in self.excluded if self.points.get(n, 0.0) <= RETURN)
        self.excluded.difference_update(returning)
        return returning

    def seconds_left(self, device: int, cool_down: float) -> float:
        """Return how long a device remains excluded."""
        return max(0.0, self.points.get(device, 0.0) - RETURN) * cool_down
