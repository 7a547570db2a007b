"""RemoteWorkers with workers that are objects of the test: no failure leaves a future without a result."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager

import numpy as np
import pytest
from worker_tasks import Counting

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning import Evaluation, TrainingStart
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState
from slotwise.learning.workers import Job, Trained
from slotwise.learning.workers.remote_workers import ATTEMPTS, RemoteWorkers, WorkerLost, WorkersGone

MODEL = np.zeros(3, np.float32)
SECONDS = 60  # for a result that comes at once; a test that waits so long has found a hang


def jobs(device: int) -> list[Job]:
    return [Job(MODEL, TrainingStart(device, 0))]


class Fake:
    """A worker; what it does are functions of the test."""

    def __init__(self, plan: "Plan", number: int) -> None:
        self._plan, self.number = plan, number
        self.killed, self.closed = threading.Event(), 0

    def load(self) -> None:
        self._plan.on_load(self)

    def train(self, jobs: Sequence[Job]) -> Trained:
        self._plan.on_train(self, jobs[0].start.device)
        return Trained([job.model + job.start.device for job in jobs], 0.1)

    def evaluate(self, round_number: int, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        self._plan.on_evaluate(self, round_number)
        return Evaluation(float(round_number), 0.0)

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> None:
        self.closed += 1

    def compute_until_killed(self) -> None:
        assert self.killed.wait(SECONDS)
        raise WorkerLost("killed")


class Plan(RemoteWorkers):
    """Starts fake workers."""

    def __init__(
        self,
        count: int = 1,
        *,
        on_start: Callable[[int], object] = lambda number: None,
        on_load: Callable[[Fake], object] = lambda fake: None,
        on_train: Callable[[Fake, int], object] = lambda fake, device: None,
        on_evaluate: Callable[[Fake, int], object] = lambda fake, number: None,
        task: Counting | None = None,
    ) -> None:
        self._on_start, self.on_load, self.on_train, self.on_evaluate = (
            on_start,
            on_load,
            on_train,
            on_evaluate,
        )
        self.fakes: list[Fake] = []
        self._starting, self._starts = threading.Lock(), 0
        super().__init__(CheckedTask.of(task or Counting()), count)

    def start_worker(self) -> Fake:
        with self._starting:
            self._starts += 1
            number = self._starts
        self._on_start(number)
        fake = Fake(self, number)
        self.fakes.append(fake)
        return fake

    def drop(self, rounds: Collection[int]) -> None:
        del rounds


@contextmanager
def closed(workers: Plan) -> Iterator[Plan]:
    """Close the workers after the block, and see that nothing of them is left."""
    try:
        yield workers
    finally:
        closing = threading.Thread(target=workers.close, daemon=True)
        closing.start()
        closing.join(SECONDS)
        assert not closing.is_alive()
    assert not any(thread.is_alive() for thread in workers._threads)
    assert [fake.closed for fake in workers.fakes] == [1] * len(workers.fakes)
    assert workers.ready == 0


def lose(*numbers: int) -> Callable[[Fake, int], None]:
    """Workers with these numbers are lost by what they do first."""

    def do(fake: Fake, _: int) -> None:
        if fake.number in numbers:
            raise WorkerLost("the node burned")

    return do


def fails_with(error: BaseException) -> Callable[..., None]:
    def do(*_: object) -> None:
        raise error

    return do


@pytest.mark.parametrize("count", [1, 3])
def test_results_are_those_of_the_work(count: int) -> None:
    with closed(Plan(count)) as workers:
        futures = [workers.train(jobs(device)) for device in range(1, 20)]
        found = [future.result(SECONDS).updates[0][0] for future in futures]
        assert found == list(range(1, 20))
        assert workers.evaluate(7, MODEL).result(SECONDS) == Evaluation(7.0, 0.0)


def test_work_of_a_lost_worker_is_done_by_its_successor() -> None:
    with closed(Plan(on_train=lose(1, 2), on_evaluate=lose(3, 4))) as workers:
        assert workers.train(jobs(4)).result(SECONDS).updates[0][0] == 4
        assert workers.evaluate(2, MODEL).result(SECONDS).loss == 2.0
        assert len(workers.fakes) == 5


def test_only_the_work_that_loses_every_worker_fails() -> None:
    def lose_with_three(fake: Fake, device: int) -> None:
        if device == 3:
            raise WorkerLost("the node burned")

    with closed(Plan(on_train=lose_with_three)) as workers:
        bad, good = workers.train(jobs(3)), workers.train(jobs(4))
        with pytest.raises(UserError, match=f"device 3 .* {ATTEMPTS} times: the node burned"):
            bad.result(SECONDS)
        assert good.result(SECONDS).updates[0][0] == 4
        assert len(workers.fakes) == 1 + ATTEMPTS


def test_an_error_of_the_task_fails_its_work_and_the_worker_stays() -> None:
    with closed(Plan(on_train=fails_with(UserError("no samples")))) as workers:
        with pytest.raises(UserError, match="no samples"):
            workers.train(jobs(1)).result(SECONDS)
        assert workers.evaluate(1, MODEL).result(SECONDS).loss == 1.0
        assert len(workers.fakes) == 1


@pytest.mark.parametrize("error", [WorkerLost("no room"), BlockingIOError("no room")])
@pytest.mark.parametrize("when", ["on_start", "on_load"])
def test_a_start_that_fails_is_tried_again(error: Exception, when: str) -> None:
    left = [error] * (ATTEMPTS - 1)

    def fail_twice(_: object) -> None:
        if left:
            raise left.pop()

    with closed(Plan(**{when: fail_twice})) as workers:  # type: ignore[arg-type]
        assert workers.train(jobs(1)).result(SECONDS).updates[0][0] == 1


@pytest.mark.parametrize(
    "error",
    [
        WorkerLost("no room"),
        OSError(24, "no room"),
        UserError("no room"),
        WorkersGone("no room"),
        ValueError("no room"),
        SystemExit("no room"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("when", ["on_start", "on_load"])
@pytest.mark.parametrize("count", [1, 3])
def test_workers_that_cannot_start_end_all_work_in_one_line(
    error: BaseException, when: str, count: int
) -> None:
    go = threading.Event()

    def fail(_: object) -> None:
        assert go.wait(SECONDS)
        raise error

    with closed(Plan(count, **{when: fail})) as workers:  # type: ignore[arg-type]
        waiting = [workers.train(jobs(1)), workers.train(jobs(2))]
        evaluation = workers.evaluate(0, MODEL)
        go.set()
        for future in waiting:
            with pytest.raises(WorkersGone, match="no room") as raised:
                future.result(SECONDS)
            assert "\n" not in str(raised.value)
        # A checkpoint needs the evaluation: it is computed here.
        assert evaluation.result(SECONDS).metrics == {"main": 1.0}
        with pytest.raises(WorkersGone, match="no room"):
            workers.train(jobs(3)).result(SECONDS)
        assert workers.evaluate(1, MODEL).result(SECONDS).metrics == {"main": 1.0}


def test_the_trace_of_a_task_that_cannot_be_loaded_is_kept() -> None:
    error = UserError("cannot load")
    error.add_note("In the worker: line 7")
    with closed(Plan(on_load=fails_with(error))) as workers:
        with pytest.raises(WorkersGone) as raised:
            workers.train(jobs(1)).result(SECONDS)
        assert raised.value.__notes__ == ["In the worker: line 7"]


def test_one_worker_that_finds_the_cluster_gone_ends_the_work_of_all() -> None:
    found = threading.Event()

    def lose_cluster(fake: Fake, device: int) -> None:
        if device == 1:
            found.set()
            raise WorkersGone("lost the cluster")
        fake.compute_until_killed()

    with closed(Plan(2, on_train=lose_cluster)) as workers:
        running, waiting = workers.train(jobs(2)), workers.train(jobs(1))
        later = workers.train(jobs(5))
        assert found.wait(SECONDS)
        for future in (waiting, later):
            with pytest.raises(WorkersGone, match="lost the cluster"):
                future.result(SECONDS)
        workers.fakes[0].kill()
        workers.fakes[1].kill()
        with pytest.raises(WorkersGone, match="lost the cluster"):  # not given to a new worker
            running.result(SECONDS)
        assert len(workers.fakes) == 2


@pytest.mark.parametrize("error", [ValueError("no data"), SystemExit(3)], ids=["error", "exit"])
def test_an_evaluation_that_fails_here_as_well_says_so(error: BaseException) -> None:
    class Failing(Counting):
        def evaluate(self, model: Vector) -> Evaluation:
            raise error

    gone = fails_with(WorkersGone("lost the cluster"))
    with closed(Plan(on_evaluate=gone, task=Failing())) as workers, pytest.raises(type(error)):
        workers.evaluate(1, MODEL).result(SECONDS)


def test_closing_ends_work_that_would_never_end_and_drops_the_rest() -> None:
    began = threading.Barrier(3)

    def hang(fake: Fake, _: int) -> None:
        began.wait(SECONDS)
        fake.compute_until_killed()

    with closed(Plan(2, on_train=hang, on_evaluate=hang)) as workers:
        running = [workers.train(jobs(1)), workers.evaluate(1, MODEL)]
        began.wait(SECONDS)
        waiting = [workers.train(jobs(2)), workers.evaluate(2, MODEL)]
    for future in [*running, *waiting]:
        with pytest.raises(CancelledError):
            future.result(0)


def test_closing_drops_work_that_was_lost_and_waits_for_another_worker() -> None:
    lost = threading.Event()

    def load(fake: Fake) -> None:
        if fake.number == 2:
            lost.set()
            fake.compute_until_killed()

    with closed(Plan(on_train=lose(1), on_load=load)) as workers:
        future = workers.train(jobs(1))
        assert lost.wait(SECONDS)
    with pytest.raises(CancelledError):
        future.result(0)


def test_closing_while_workers_start_ends_them() -> None:
    began = threading.Barrier(3)

    def hang(fake: Fake) -> None:
        began.wait(SECONDS)
        fake.compute_until_killed()

    with closed(Plan(2, on_load=hang)) as workers:
        future = workers.train(jobs(1))
        began.wait(SECONDS)
    assert future.cancelled()


def test_a_worker_that_has_started_after_closing_is_ended() -> None:
    began, go = threading.Event(), threading.Event()

    def start(_: int) -> None:
        began.set()
        assert go.wait(SECONDS)

    workers = Plan(on_start=start)
    assert began.wait(SECONDS)
    closing = threading.Thread(target=workers.close)
    closing.start()
    with workers._changed:
        assert workers._changed.wait_for(lambda: workers._closing, SECONDS)
    go.set()
    closing.join(SECONDS)
    assert not closing.is_alive()
    assert [fake.closed for fake in workers.fakes] == [1]


def test_closing_twice_is_the_same_as_once() -> None:
    with closed(Plan()) as workers:
        workers.close()


def test_work_after_closing_is_refused() -> None:
    with closed(Plan()) as workers:
        pass
    with pytest.raises(RuntimeError):
        workers.train(jobs(1))
    with pytest.raises(RuntimeError):
        workers.evaluate(1, MODEL)


def test_work_that_was_cancelled_before_it_began_is_left_out() -> None:
    began, go, done = threading.Event(), threading.Event(), list[int]()

    def note(_: Fake, device: int) -> None:
        began.set()
        assert go.wait(SECONDS)
        done.append(device)

    with closed(Plan(on_train=note)) as workers:
        first = workers.train(jobs(1))
        assert began.wait(SECONDS)
        dropped, last = workers.train(jobs(2)), workers.train(jobs(3))
        assert dropped.cancel()
        go.set()
        assert first.result(SECONDS)
        assert last.result(SECONDS)
        assert done == [1, 3]
