"""UpdatePipeline: the updates of a timeline in the order of its uplinks, computed ahead by workers.

Staleness is parallelism. An update depends only on the model it starts on, so every uplink whose model exists
can be computed, up to staleness + 1 rounds ahead. Uplinks are computed in the order of the channel and a
bounded number ahead: enough to keep all workers busy, few enough not to hold the updates of a thousand
devices in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future

from slotwise.aggregation import Vector
from slotwise.learning.task import NO_DEVICE_STATE, DeviceState, TrainingResult, TrainingStart
from slotwise.learning.workers import Job, Trained, Workers
from slotwise.schedule import Timeline

PORTIONS_PER_WORKER = 4
PORTION_SECONDS = 0.005  # short trainings go to a worker together: waking it costs about as much as one


class UpdatePipeline:
    """Updates of a timeline, one after another. Results do not depend on how far ahead they are computed."""

    def __init__(
        self,
        timeline: Timeline,
        workers: Workers,
        models: Mapping[int, Vector],
        first: int,
        states: Mapping[int, DeviceState] | None = None,
    ) -> None:
        """Begin with uplink ``first``.

        ``models`` is the engine's table of the models that exist, ``states`` that of what devices keep.
        """
        self._states = {} if states is None else states
        self._timeline, self._workers, self._models, self._next = timeline, workers, models, first
        self._started: deque[Future[Trained]] = deque()
        self._finished: deque[Vector | TrainingResult] = deque()
        self._most = 1  # trainings of a portion, from the time that the latest ones took

    def pop(self) -> Vector | TrainingResult:
        """Return the result of the local training of the next uplink."""
        if not self._finished:
            updates, seconds = self._started[0].result()
            self._started.popleft()
            self._finished.extend(updates)
            self._most = max(1, int(PORTION_SECONDS * len(updates) / max(seconds, 1e-6)))
            self.start()
        return self._finished.popleft()

    def start(self) -> None:
        """Start the next local trainings, up to the first that waits for a model of a later round."""
        while len(self._started) < PORTIONS_PER_WORKER * self._workers.count:
            idle = max(1, self._workers.count - len(self._started))
            jobs = self._next_jobs(self._most * idle)
            if not jobs:
                return
            jobs = jobs[: -(-len(jobs) // idle)]
            self._started.append(self._workers.train(jobs))
            self._next += len(jobs)

    def _next_jobs(self, most: int) -> list[Job]:
        """Return the next local trainings whose models exist, at most ``most``."""
        timeline, rows = self._timeline, slice(self._next, self._next + most)
        columns = (timeline.device[rows], timeline.training[rows], timeline.version[rows])
        jobs: list[Job] = []
        for device, training, version in zip(*(column.tolist() for column in columns), strict=True):
            model = self._models.get(version)
            if model is None:
                break
            slot = int(timeline.broadcast_end[version - 1]) if version else 0
            # A model reaches a device after the round of its last update, so that training's state is known.
            state = self._states.get(device, NO_DEVICE_STATE)
            jobs.append(Job(model, TrainingStart(device, training, version, slot, state)))
        return jobs
