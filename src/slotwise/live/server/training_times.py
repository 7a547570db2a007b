"""TrainingTimes: how long trainings took, and so how long to wait for one that does not end."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

MULTIPLE = 10  # of the median of a device's trainings: the longest that is waited for
LEAST_MULTIPLE = 5  # of the timeout: a device that was busy for once is waited for as long as that
UNKNOWN_MULTIPLE = 20  # of the timeout, for a device that has not finished a training in this run
REMEMBERED = 9  # trainings of a device


class TrainingTimes:
    """Owner of when trainings began and how long they took, as the server sees it."""

    def __init__(self) -> None:
        self._began: dict[int, float] = {}
        self._took: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def begin(self, device: int, now: float) -> None:
        """Note that a device has been assigned a training."""
        self._began[device] = now

    def restart(self, now: float) -> None:
        """Count all trainings anew, as after a reconnect: no device could have reported anything before."""
        self._began = dict.fromkeys(self._began, now)

    def end(self, device: int, now: float) -> None:
        """Note that a device has finished its training."""
        if device in self._began:
            self._took[device].append(now - self._began.pop(device))

    def limit(self, device: int, timeout: float) -> float:
        """Return the seconds that a training may take: a multiple of the others, or of the timeout."""
        if took := self._took.get(device):
            return max(LEAST_MULTIPLE * timeout, MULTIPLE * median(took))
        return UNKNOWN_MULTIPLE * timeout

    def waited(self, device: int, now: float) -> float:
        """Return the seconds since a device was assigned what it trains."""
        # A resumed server does not know when the training began, and counts from now.
        return now - self._began.setdefault(device, now)
