"""RayCrew: trainers on the nodes of a Ray cluster.

Each data set is put into the cluster's object store once; a node fetches it once, and all its trainers read
that one copy. Checkpoints and curves come back as they are written, so the sweep's folder is as if the points
were trained here, and a point whose node is lost goes on elsewhere from what has come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from typing import Any

from slotwise.batch.connection import Connection
from slotwise.batch.crew import Ended, Event, Lost, Progress
from slotwise.batch.folder import SweepFolder
from slotwise.batch.parcel import pack, unpack
from slotwise.batch.point import Order
from slotwise.batch.remote import News, Trainer
from slotwise.batch.training import Job
from slotwise.errors import UserError
from slotwise.runs import RunFolder

CALLS_AT_ONCE = 3  # of a trainer: `stop` has to be heard while `news` waits
FALSE_STARTS = 3
SECONDS_BETWEEN_QUESTIONS, SECONDS_WITHOUT_HEAD = 3.0, 20.0  # Ray ends a process without a head after 60


class RayCrew:
    """As many trainers as the cluster has cores for, or as ``workers`` says."""

    losses_allowed = 3

    def __init__(
        self,
        cluster: Connection,
        folder: SweepFolder,
        points: int,
        workers: int | None,
        checkpoint_every: float,
    ) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._folder, self._checkpoint_every = folder, checkpoint_every
        with self._head_needed():
            cores = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        total = max(1, sum(cores) if workers is None else workers)
        self._threads = max(1, min(total // max(1, points), max(cores, default=1)))
        self._size = max(1, min(total // self._threads, points))
        self._datasets: dict[str, Any] = {}
        self._members: list[_Member] = []
        self._refused: list[Event] = []
        self._false_starts = 0
        self._answered = self._asked = time.monotonic()

    @property
    def busy(self) -> int:
        """How many points are being trained."""
        return sum(member.job is not None for member in self._members)

    def give(self, job: Job, waiting: int) -> bool:
        """Train a job on a trainer that has come up."""
        with self._head_needed():
            while len(self._members) < min(self._size, self.busy + waiting) and self._cluster.answers():
                self._members.append(_Member(self._ray, self._threads))
            idle = next((member for member in self._members if member.idle), None)
            if idle is None:
                return False
            self._begin(idle, job)
            return True

    def wait(self, seconds: float) -> Sequence[Event]:
        """What the trainers have sent."""
        with self._head_needed():
            self._look_after_head()
            refused, self._refused = self._refused, []
            return refused or self._heard(seconds)

    def stop(self) -> None:
        """Ask for checkpoints and an early end."""
        with self._head_needed():
            for member in self._members:
                member.stop()

    def close(self) -> None:
        """Let the trainers go; the cluster stays."""
        for member in self._members:
            member.end()
        self._members.clear()
        with suppress(ConnectionError):  # there is no head left to say goodbye to
            self._ray.shutdown()

    def _look_after_head(self) -> None:
        now = time.monotonic()
        if now - self._asked < SECONDS_BETWEEN_QUESTIONS:
            return
        self._asked = now
        if self._cluster.answers():
            self._answered = now
        elif now - self._answered > SECONDS_WITHOUT_HEAD:
            raise self._gone()

    @contextmanager
    def _head_needed(self) -> Iterator[None]:
        """With ray://, every call goes through the head, and fails when that is lost."""
        try:
            yield
        except ConnectionError:
            raise self._gone() from None

    def _gone(self) -> UserError:
        return UserError(
            f"the Ray cluster at {self._cluster.head} is gone; what has come back is kept, "
            "and the same command goes on from there"
        )

    def _begin(self, idle: _Member, job: Job) -> None:
        """What stands against one point is told of it, and stops no other."""
        order = Order.of(job, self._threads, self._checkpoint_every)
        try:
            idle.begin(job, self._run_folder(job), order, self._dataset(job))
        except UserError as error:
            self._refused.append(Ended(job, str(error)))

    def _run_folder(self, job: Job) -> RunFolder:
        run = self._folder.run(job.run.name)
        return run if run.is_run else RunFolder.create(run.path, job.run.parameters)

    def _dataset(self, job: Job) -> Any:
        name = job.run.parameters.dataset.data
        if name not in self._datasets:
            self._datasets[name] = self._ray.put(job.run.parameters.dataset.load())
        return self._datasets[name]

    def _heard(self, seconds: float) -> list[Event]:
        called = {member.call: member for member in self._members if member.call is not None}
        if not called:
            time.sleep(seconds)
            return []
        answered, _ = self._ray.wait(list(called), timeout=seconds)
        return [event for call in answered for event in self._answer(called[call])]

    def _answer(self, member: _Member) -> list[Event]:
        job = member.job
        try:
            events = member.answered()
        except self._ray.exceptions.RayTaskError as error:
            return self._failed(member, _last_line(error))
        except self._ray.exceptions.RayError as error:
            self._dismiss(member)
            if job is None:
                self._count_false_start(_last_line(error))
                return []
            head = "" if self._cluster.answers() else ", and the head of the cluster does not answer"
            return [Lost(job, f"its node or its process was lost{head}")]
        self._false_starts = 0
        return events

    def _failed(self, member: _Member, reason: str) -> list[Event]:
        """A trainer that raises is of no use, be it for one point or for all."""
        job = member.job
        self._dismiss(member)
        if job is None:
            raise UserError(f"a node of the cluster cannot run slotwise: {reason}")
        return [Ended(job, reason)]

    def _dismiss(self, member: _Member) -> None:
        self._members.remove(member)
        member.end()

    def _count_false_start(self, reason: str) -> None:
        self._false_starts += 1
        if self._false_starts >= FALSE_STARTS:
            raise UserError(f"the cluster cannot start slotwise: {reason}")


class _Member:
    """A trainer, the point it has, and the one call to it that is not answered yet."""

    def __init__(self, ray: Any, threads: int) -> None:
        self._ray = ray
        actor = ray.remote(
            num_cpus=threads, max_restarts=0, max_concurrency=CALLS_AT_ONCE, scheduling_strategy="SPREAD"
        )
        self._trainer = actor(Trainer).remote()
        self._began = self._greeted = False
        self._held = ExitStack()
        self.job: Job | None = None
        self.call: Any = self._trainer.hello.remote()

    @property
    def idle(self) -> bool:
        """Whether it waits for a point."""
        return self.call is None

    def begin(self, job: Job, run: RunFolder, order: Order, dataset: Any) -> None:
        """Have a point trained; nobody else may meanwhile."""
        with ExitStack() as held:
            held.enter_context(run.held())
            self.call = self._trainer.begin.remote(order, pack(run), dataset)
            self._held = held.pop_all()
        self.job, self._run, self._began = job, run, False

    def answered(self) -> list[Event]:
        """Take in the answer to the call, and make the next.

        Raises:
            RayError: there is none, and there will be none.
        """
        answer = self._ray.get(self.call)
        if not self._greeted:
            self._greet(*answer)
            return []
        if not self._began:
            self._began = True
            self.call = self._trainer.news.remote()
            return []
        return self._heard(answer)

    def _greet(self, node: str, installed: str) -> None:
        here = version("slotwise")
        if installed != here:
            raise UserError(f"node {node} has slotwise {installed}, and this is {here}: must be the same")
        self._greeted, self.call = True, None

    def _heard(self, news: News) -> list[Event]:
        job = self.job
        assert job is not None
        unpack(news.files, self._run)
        events: list[Event] = []
        if news.words is not None:
            words = news.words
            events.append(Progress(job, words.done, words.rounds, words.loss, words.accuracy))
        if news.over:
            self.job, self.call = None, None
            self._held.close()
            return [*events, Ended(job, news.reason)]
        self.call = self._trainer.news.remote()
        return events

    def stop(self) -> None:
        """End early, with a checkpoint."""
        self._trainer.stop.remote()

    def end(self) -> None:
        """At once."""
        self._held.close()
        with suppress(Exception):  # it may be gone already, with its node
            self._ray.kill(self._trainer)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
