"""RateLimit: a token bucket for each device."""

from __future__ import annotations


class RateLimit:
    """Allows ``burst`` actions at once, and ``per_second`` on average, for each device by itself."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._burst, self._per_second = float(burst), per_second
        self._used: dict[int, tuple[float, float]] = {}  # actions not made up for, and when that was

    def allows(self, device: int, now: float) -> bool:
        """Count an action; False if it is one too many."""
        used = self.used(device, now)
        if used > self._burst - 1:
            return False
        self._used[device] = used + 1, now
        return True

    def used(self, device: int, now: float) -> float:
        """Return how much of the burst is used."""
        used, since = self._used.get(device, (0.0, now))
        return max(0.0, used - (now - since) * self._per_second)
