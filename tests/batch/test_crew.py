from collections import deque
from collections.abc import Sequence

import pytest

from slotwise.batch.crew import Ended, Event, Lost, Progress, SweepWatcher, conduct
from slotwise.batch.job import Run
from slotwise.batch.training import Job
from slotwise.runs import RunConfig

JOBS = [
    Job(Run(name, RunConfig().with_options(seed=seed)), work)
    for seed, (name, work) in enumerate([("small", 1.0), ("large", 9.0), ("middle", 5.0)])
]


class Script:
    """A crew of one that does what a test says with each point, the first time and the next."""

    losses_allowed = 1

    def __init__(self, *fates: tuple[str, str]) -> None:
        self.fates = deque(fates)
        self.given: list[str] = []
        self.job: Job | None = None
        self.stopped = self.closed = False

    @property
    def busy(self) -> int:
        return int(self.job is not None)

    def give(self, job: Job, waiting: int) -> bool:
        if self.job is not None:
            return False
        self.given.append(job.run.name)
        self.job = job
        return True

    def wait(self, seconds: float) -> Sequence[Event]:
        job, self.job = self.job, None
        if job is None:
            return []
        fate, reason = self.fates.popleft() if self.fates else ("ended", "")
        return (
            [Lost(job, reason)]
            if fate == "lost"
            else [Progress(job, 1, 1, 0.5, 0.5), Ended(job, reason or None)]
        )

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


class Notes(SweepWatcher):
    def __init__(self, stop_after: int = 99) -> None:
        self.lines: list[str] = []
        self.stop_after = stop_after

    def started(self, job: Job) -> None:
        self.lines.append(f"started {job.run.name}")

    def ended(self, job: Job, reason: str | None) -> None:
        self.lines.append(f"ended {job.run.name}")

    def lost(self, job: Job, reason: str) -> None:
        self.lines.append(f"lost {job.run.name}")

    def wants_stop(self) -> bool:
        return sum(line.startswith("ended") for line in self.lines) >= self.stop_after


def test_all_are_trained_the_largest_first() -> None:
    crew = Script()
    assert conduct(JOBS, crew, Notes()) == ()
    assert crew.given == ["large", "middle", "small"]
    assert crew.closed


def test_one_that_fails_stops_no_other_and_is_told() -> None:
    crew = Script(("ended", "diverged"))
    (failure,) = conduct(JOBS, crew, Notes())
    assert (failure.run.name, failure.reason) == ("large", "diverged")
    assert crew.given == ["large", "middle", "small"]


def test_one_whose_trainer_is_lost_is_given_to_the_next() -> None:
    crew, notes = Script(("lost", "gone")), Notes()
    assert conduct(JOBS, crew, notes) == ()
    assert crew.given == ["large", "large", "middle", "small"]
    assert notes.lines[:4] == ["started large", "lost large", "started large", "ended large"]


def test_one_that_is_lost_again_and_again_is_given_up() -> None:
    crew = Script(("lost", "gone"), ("lost", "gone"))
    (failure,) = conduct(JOBS, crew, Notes())
    assert failure.reason == "gone, 2 times"
    assert crew.given == ["large", "large", "middle", "small"]


def test_when_asked_to_stop_nothing_more_is_given_out() -> None:
    crew = Script()
    assert conduct(JOBS, crew, Notes(stop_after=1)) == ()
    assert crew.given == ["large"]
    assert (crew.stopped, crew.closed) == (True, True)


def test_the_crew_is_let_go_if_something_goes_wrong() -> None:
    class Impatient(Notes):
        def progressed(self, progress: Progress) -> None:
            raise KeyboardInterrupt

    crew = Script()
    with pytest.raises(KeyboardInterrupt):
        conduct(JOBS, crew, Impatient())
    assert crew.closed
