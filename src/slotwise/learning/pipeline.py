"""UpdatePipeline: the updates of a timeline in the order of its uplinks, computed ahead by workers.

Staleness is parallelism. An update depends only on the model it starts on, so every uplink whose model exists
can be computed, up to staleness + 1 rounds ahead. Uplinks are computed in the order of the channel and a
bounded number ahead: enough to keep all workers busy, few enough not to hold the updates of many devices in
memory.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from slotwise.aggregation.rule import Vector
from slotwise.learning.course import Course
from slotwise.learning.task import NO_DEVICE_STATE, DeviceState, TrainingResult, TrainingStart, update_of
from slotwise.learning.workers import Trained, TrainingJob, Workers

PORTIONS_PER_WORKER = 4
# Short trainings go to a worker together: waking it costs about as much as a short one, and what surrounds
# the kernels in Python takes three times as long when they have just replaced it in the caches.
PORTION_SECONDS = 0.02
PORTION_BYTES = 16 << 20  # of updates


class UpdatePipeline:
    """Updates of a course, one after another. Results do not depend on how far ahead they are computed."""

    def __init__(
        self,
        course: Course,
        workers: Workers,
        models: Mapping[int, Vector],
        first: int,
        states: Callable[[], Mapping[int, DeviceState]] = dict,
    ) -> None:
        """Begin with uplink ``first``.

        ``models`` is the engine's table of the models that exist, ``states`` returns what devices keep.
        """
        self._states = states
        self._course, self._workers, self._models = course, workers, models
        self._first = self._next = first  # uplinks: the first whose update is kept, the next to start
        self._started: deque[Future[Trained]] = deque()
        self._finished: deque[Vector | TrainingResult] = deque()
        self._most = 1  # trainings of a portion
        # The models that an uplink's training starts from and no later one's does.
        self._last_starts: defaultdict[int, list[int]] = defaultdict(list)
        # Models that no training starts from get uplink -1, which never returns.
        last_starts = course.last_starts()
        self._last_known = len(last_starts) > 0
        for version, uplink in enumerate(last_starts):
            self._last_starts[uplink].append(version)
        self._returned = first  # the next uplink whose training returns

    def updates(self, uplinks: slice) -> list[Vector | TrainingResult]:
        """Return the results of consecutive uplinks; those before them are dropped, these are kept."""
        self.drop(uplinks.start)
        count = uplinks.stop - uplinks.start
        while len(self._finished) < count:
            updates, seconds = self._started[0].result()
            self._finished.extend(updates)
            self._started.popleft()
            self._drop_models(len(updates))
            self._choose_portion(len(updates), seconds, update_of(updates[0]).nbytes)
            self.start()
        return [self._finished[number] for number in range(count)]

    def drop_models(self, versions: Collection[int]) -> None:
        """Tell the workers of models that nothing uses any more, if the last starts were not known."""
        if versions and not self._last_known:
            self._workers.drop(versions)

    def drop(self, uplink: int) -> None:
        """Drop the updates of all uplinks before this one."""
        while self._first < uplink and self._finished:
            self._finished.popleft()
            self._first += 1

    def _drop_models(self, returned: int) -> None:
        """Tell the workers of models that no training starts from any more."""
        uplinks = range(self._returned, self._returned + returned)
        self._returned += returned
        dropped = [version for uplink in uplinks for version in self._last_starts.pop(uplink, ())]
        if dropped:
            self._workers.drop(dropped)

    def start(self) -> None:
        """Start the next local trainings, up to the first that waits for a model of a later round."""
        while len(self._started) < PORTIONS_PER_WORKER * self._workers.count:
            # Few trainings may be possible until the next model exists. They are divided among the idle
            # workers, or among all if none is idle, so that one worker does not get them all.
            idle = self._workers.count - len(self._started)
            share = idle if idle > 0 else self._workers.count
            jobs = self._next_jobs(self._most * share)
            if not jobs:
                return
            jobs = jobs[: -(-len(jobs) // share)]
            self._started.append(self._workers.train(jobs))
            self._next += len(jobs)

    def cancel(self) -> None:
        """Start no more trainings, and drop those that have not begun."""
        self._next = len(self._course)
        for future in self._started:
            future.cancel()

    def _choose_portion(self, count: int, seconds: float, update_bytes: int) -> None:
        """Choose how many trainings go to a worker together, from those of the last portion."""
        by_time = int(PORTION_SECONDS * count / max(seconds, 1e-6))
        by_size = PORTION_BYTES // max(1, update_bytes)
        # Devices differ: one that took no time says little about the next.
        self._most = max(1, min(by_time, by_size, 2 * self._most))

    def _next_jobs(self, most: int) -> list[TrainingJob]:
        """Return the next local trainings whose models exist, at most ``most``."""
        course, rows = self._course, slice(self._next, self._next + most)
        columns = (course.device[rows], course.training[rows], course.version[rows])
        jobs: list[TrainingJob] = []
        states = self._states()
        for device, training, version in zip(*(column.tolist() for column in columns), strict=True):
            model = self._models.get(version)
            # Later uplinks may have a model, but results are returned in the order of the uplinks.
            if model is None:
                break
            slot = int(course.broadcast_end[version - 1]) if version else 0
            # A model reaches a device after the round of its last update, so that training's state is known.
            state = states.get(device, NO_DEVICE_STATE)
            jobs.append(TrainingJob(model, TrainingStart(device, training, version, slot, state)))
        return jobs
