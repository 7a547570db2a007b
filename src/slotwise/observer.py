"""Observer: the callbacks of runs, batches and live servers. There is only this kind of observer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from slotwise.batch.job import Job, JobProgress
    from slotwise.learning.engine import History, Point
    from slotwise.live.server.live_status import LiveStatus
    from slotwise.live.server.live_view import LiveView
    from slotwise.log_event import LogEvent
    from slotwise.runs import RunConfig, RunFolder
    from slotwise.schedule import Timeline

RunEnd = Literal["finished", "interrupted", "diverged", "failed"]


class Observer:
    """Callbacks that do nothing; subclasses override the ones they need."""

    def notice(self, message: str) -> None:
        """Receive a one-line message that is no error, such as that a damaged checkpoint was skipped."""

    def run_opened(self, folder: RunFolder, config: RunConfig) -> None:
        """A run begins or resumes in its folder; `run_started` follows."""

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Training begins, or resumes after the rounds of ``resumed``."""

    def round_done(self, round_number: int) -> None:
        """Round ``round_number`` has been applied."""

    def evaluated(self, point: Point) -> None:
        """A model has been evaluated."""

    def training_ended(self, rounds: int) -> None:
        """Training has ended after so many rounds, also if an error ended it."""

    def run_ended(self, status: RunEnd) -> None:
        """A run that was opened has ended and its files are written; it failed if an error ended it."""

    def batch_started(self, jobs: Sequence[Job], finished: int) -> None:
        """A batch begins to train ``jobs``; ``finished`` other runs were finished before."""

    def job_started(self, job: Job) -> None:
        """A worker begins or resumes a job."""

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        """A job has made progress; reported a few times a second."""

    def job_retried(self, job: Job, reason: str) -> None:
        """A job has lost its worker, for ``reason``; another one resumes it from its last checkpoint."""

    def job_ended(self, job: Job, reason: str | None) -> None:
        """A job is finished or was stopped; ``reason`` says why if it failed."""

    def batch_stopping(self) -> None:
        """A batch stops early, for an observer or Ctrl-C; its jobs in training save what there is and end."""

    def batch_ended(self) -> None:
        """A batch has ended, also if it was stopped or an error ended it."""

    def rung_started(self, slot: int, candidates: Sequence[str]) -> None:
        """A search trains these candidates up to a slot."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """Part ``stage`` of some work without rounds of its own has come this far."""

    def devices_connected(self, present: int, expected: int) -> None:
        """``present`` of the ``expected`` devices are connected; the server waits for the others."""

    def message_rejected(self, topic: str, reason: str) -> None:
        """A message of a device was rejected."""

    def logged(self, event: LogEvent) -> None:
        """Something that an operator of a live server may want to know has happened."""

    def status_changed(self, status: LiveStatus) -> None:
        """The state of a live run, every few seconds; status.json in its folder has the same."""

    def live_started(self, view: LiveView) -> None:
        """A live run begins; ``view`` may be read in its event loop at any time."""

    def wants_stop(self) -> bool:
        """Return whether to stop early, with a checkpoint."""
        return False


class Observers(Observer):
    """Several observers as one: each is told everything, and each may ask to stop."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def wants_stop(self) -> bool:
        """Return whether one of the observers asks to stop."""
        return any(observer.wants_stop() for observer in self._observers)


def _forward(callback: str) -> Any:
    def tell(self: Observers, *arguments: Any, **named: Any) -> None:
        for observer in self._observers:
            getattr(observer, callback)(*arguments, **named)

    return tell


# Callbacks that are added to Observer are passed on without a line here; methods of the class, so that a
# subclass can override them.
for _name, _member in vars(Observer).items():
    if callable(_member) and not _name.startswith("_") and _name != "wants_stop":
        setattr(Observers, _name, _forward(_name))
