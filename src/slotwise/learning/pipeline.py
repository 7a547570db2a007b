"""Local trainings in flight. Staleness is parallelism: what waits for no model runs at once.

An update depends on the model it starts on and on nothing else, so every uplink whose model exists can be
computed, up to staleness+1 rounds ahead. Uplinks are computed in the order of the channel, a bounded number
ahead: enough to keep all workers busy, few enough not to hold the updates of a thousand devices in memory.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, Future

import numpy as np

from slotwise.aggregation import Contribution, Vector
from slotwise.learning.task import Task
from slotwise.schedule import Timeline

AHEAD_PER_WORKER = 4


class Pipeline:
    """Gives the contributions of one round after another, keeping the workers of ``pool`` busy."""

    def __init__(
        self, timeline: Timeline, task: Task, pool: Executor, workers: int, first_round: int
    ) -> None:
        self._timeline, self._task, self._pool = timeline, task, pool
        self._ahead = AHEAD_PER_WORKER * workers
        self._next = int(timeline.round_offsets[first_round])
        self._in_flight: deque[Future[Vector]] = deque()
        self._expiring = _expiring(timeline)
        self.models: dict[int, Vector] = {}

    def offer(self, version: int, model: Vector) -> None:
        """Add a model; trainings that waited for it start."""
        self.models[version] = model
        self._fill()

    def contributions(self, round_number: int) -> list[Contribution]:
        """The updates of a round, in the order of its uplinks; waits for those not finished yet."""
        rows = self._timeline.uplinks(round_number)
        result = []
        for version in self._timeline.version[rows].tolist():
            update = self._in_flight.popleft().result()
            result.append(Contribution(update, round_number - version, self.models[version]))
            self._fill()
        return result

    def forget(self, round_number: int) -> None:
        """Drop the models that no uplink after round ``round_number`` was trained on."""
        for version in self._expiring.pop(round_number, ()):
            self.models.pop(version, None)

    def _fill(self) -> None:
        timeline = self._timeline
        while self._next < len(timeline) and len(self._in_flight) < self._ahead:
            row = self._next
            model = self.models.get(int(timeline.version[row]))
            if model is None:
                return
            device, training = int(timeline.device[row]), int(timeline.training[row])
            self._in_flight.append(self._pool.submit(self._task.local_update, model, device, training))
            self._next += 1


def _expiring(timeline: Timeline) -> dict[int, list[int]]:
    """For each round the models used by it and by no later one.

    Model k is used by round k in any case, which replaces it; the last model, the result, never expires.
    """
    last_use = np.arange(timeline.rounds, dtype=np.int64)
    np.maximum.at(last_use, timeline.version, timeline.round)
    expiring: dict[int, list[int]] = {}
    for version, round_number in enumerate(last_use.tolist()):
        expiring.setdefault(round_number, []).append(version)
    return expiring
