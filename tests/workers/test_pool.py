"""A pool with workers that are objects of the test: no failure leaves work without a result."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any

import pytest

from slotwise.base.errors import UserError
from slotwise.workers import Pool, Work, WorkerLost, WorkersGone
from slotwise.workers.pool import ATTEMPTS

SECONDS = 60  # for a result that comes at once; a test that waits so long has found a hang


class Fake:
    """A worker; what it does are functions of the test."""

    def __init__(self, pool: "Fakes", number: int) -> None:
        self._pool, self.number = pool, number
        self.killed, self.closed = threading.Event(), 0

    def load(self) -> None:
        self._pool.on_load(self)

    def call(self, method: str, *arguments: Any) -> Any:
        del method
        self._pool.on_call(self, arguments[0])
        return arguments[0]

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> None:
        self.closed += 1

    def compute_until_killed(self) -> None:
        assert self.killed.wait(SECONDS)
        raise WorkerLost("killed")


class Echo(Work[int]):
    """Work whose result is its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def result(self, worker: Fake) -> int:
        return int(worker.call("echo", self._number))

    def __str__(self) -> str:
        return f"number {self._number}"


class Fakes(Pool):
    """A pool of fake workers."""

    def __init__(
        self,
        count: int = 1,
        *,
        on_start: Callable[[int], object] = lambda number: None,
        on_load: Callable[[Fake], object] = lambda fake: None,
        on_call: Callable[[Fake, int], object] = lambda fake, number: None,
    ) -> None:
        self._on_start, self.on_load, self.on_call = on_start, on_load, on_call
        self.fakes: list[Fake] = []
        self._starting, self._starts = threading.Lock(), 0
        super().__init__(self._start_fake, count)

    def _start_fake(self) -> Fake:
        with self._starting:
            self._starts += 1
            number = self._starts
        self._on_start(number)
        fake = Fake(self, number)
        self.fakes.append(fake)
        return fake

    def echo(self, number: int) -> Future[int]:
        work = Echo(number)
        self.add(work)
        return work.future


@contextmanager
def closed(pool: Fakes) -> Iterator[Fakes]:
    """Close the pool after the block, and see that nothing of it is left."""
    try:
        yield pool
    finally:
        closing = threading.Thread(target=pool.close, daemon=True)
        closing.start()
        closing.join(SECONDS)
        assert not closing.is_alive()
    assert not any(thread.is_alive() for thread in pool._threads)
    assert [fake.closed for fake in pool.fakes] == [1] * len(pool.fakes)
    assert (pool.ready, pool.workers) == (0, [])


def fails_with(error: BaseException) -> Callable[..., None]:
    def do(*_: object) -> None:
        raise error

    return do


@pytest.mark.parametrize("count", [1, 3])
def test_results_are_those_of_the_work(count: int) -> None:
    with closed(Fakes(count)) as pool:
        futures = [pool.echo(number) for number in range(20)]
        assert [future.result(SECONDS) for future in futures] == list(range(20))


def test_a_pool_grows_and_never_shrinks() -> None:
    with closed(Fakes(0)) as pool:
        first = pool.echo(1)
        assert not pool.fakes
        pool.grow(1)
        pool.grow(0)
        assert first.result(SECONDS) == 1
        assert pool.ready == 1


def test_work_of_a_lost_worker_is_done_by_its_successor_and_only_starts_in_a_row_count() -> None:
    def lose(fake: Fake, _: int) -> None:
        if fake.number in (3, 6):
            raise WorkerLost("the node burned")

    def fail(fake: Fake) -> None:
        if fake.number in (1, 2, 4, 5, 7, 8):
            raise WorkerLost("no room")

    with closed(Fakes(on_call=lose, on_load=fail)) as pool:
        assert pool.echo(4).result(SECONDS) == 4
        assert len(pool.fakes) == 9


def test_only_the_work_that_loses_every_worker_fails() -> None:
    def lose_with_three(fake: Fake, number: int) -> None:
        if number == 3:
            raise WorkerLost("the node burned")

    with closed(Fakes(on_call=lose_with_three)) as pool:
        bad, good = pool.echo(3), pool.echo(4)
        with pytest.raises(UserError, match=f"number 3 .* {ATTEMPTS} times: the node burned"):
            bad.result(SECONDS)
        assert good.result(SECONDS) == 4
        assert len(pool.fakes) == 1 + ATTEMPTS


def test_an_error_fails_its_work_and_the_worker_stays() -> None:
    def fail_with_one(_: Fake, number: int) -> None:
        if number == 1:
            raise UserError("no samples")

    with closed(Fakes(on_call=fail_with_one)) as pool:
        with pytest.raises(UserError, match="no samples"):
            pool.echo(1).result(SECONDS)
        assert pool.echo(2).result(SECONDS) == 2
        assert len(pool.fakes) == 1


@pytest.mark.parametrize("error", [WorkerLost("no room"), BlockingIOError("no room")])
@pytest.mark.parametrize("when", ["on_start", "on_load"])
def test_a_start_that_fails_is_tried_again(error: Exception, when: str) -> None:
    left = [error] * (ATTEMPTS - 1)

    def fail_twice(_: object) -> None:
        if left:
            raise left.pop()

    with closed(Fakes(**{when: fail_twice})) as pool:  # type: ignore[arg-type]
        assert pool.echo(1).result(SECONDS) == 1


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

    with closed(Fakes(count, **{when: fail})) as pool:  # type: ignore[arg-type]
        waiting = [pool.echo(1), pool.echo(2)]
        go.set()
        for future in [*waiting, pool.echo(3)]:
            with pytest.raises(WorkersGone, match="no room") as raised:
                future.result(SECONDS)
            assert "\n" not in str(raised.value)
        assert pool.gone is not None


def test_the_trace_of_an_object_that_cannot_be_made_is_kept() -> None:
    error = UserError("cannot load")
    error.add_note("In the worker: line 7")
    with closed(Fakes(on_load=fails_with(error))) as pool:
        with pytest.raises(WorkersGone) as raised:
            pool.echo(1).result(SECONDS)
        assert raised.value.__notes__ == ["In the worker: line 7"]


def test_one_worker_that_finds_the_cluster_gone_ends_the_work_of_all() -> None:
    found = threading.Event()

    def lose_cluster(fake: Fake, number: int) -> None:
        if number == 1:
            found.set()
            raise WorkersGone("lost the cluster")
        fake.compute_until_killed()

    with closed(Fakes(2, on_call=lose_cluster)) as pool:
        running, waiting, later = pool.echo(2), pool.echo(1), pool.echo(5)
        assert found.wait(SECONDS)
        for future in (waiting, later):
            with pytest.raises(WorkersGone, match="lost the cluster"):
                future.result(SECONDS)
        for fake in pool.fakes:
            fake.kill()
        with pytest.raises(WorkersGone, match="lost the cluster"):  # not given to a new worker
            running.result(SECONDS)
        assert len(pool.fakes) == 2


def test_closing_ends_work_that_would_never_end_and_drops_the_rest() -> None:
    began = threading.Barrier(3)

    def hang(fake: Fake, _: int) -> None:
        began.wait(SECONDS)
        fake.compute_until_killed()

    with closed(Fakes(2, on_call=hang)) as pool:
        running = [pool.echo(1), pool.echo(2)]
        began.wait(SECONDS)
        waiting = [pool.echo(3), pool.echo(4)]
    for future in [*running, *waiting]:
        with pytest.raises(CancelledError):
            future.result(0)


def test_closing_drops_work_that_was_lost_and_waits_for_another_worker() -> None:
    lost = threading.Event()

    def load(fake: Fake) -> None:
        if fake.number == 2:
            lost.set()
            fake.compute_until_killed()

    with closed(Fakes(on_call=fails_with(WorkerLost("burned")), on_load=load)) as pool:
        future = pool.echo(1)
        assert lost.wait(SECONDS)
    with pytest.raises(CancelledError):
        future.result(0)


def test_closing_while_workers_start_ends_them() -> None:
    began = threading.Barrier(3)

    def hang(fake: Fake) -> None:
        began.wait(SECONDS)
        fake.compute_until_killed()

    with closed(Fakes(2, on_load=hang)) as pool:
        future = pool.echo(1)
        began.wait(SECONDS)
    assert future.cancelled()


def test_a_worker_that_has_started_after_closing_is_ended() -> None:
    began, go = threading.Event(), threading.Event()

    def start(_: int) -> None:
        began.set()
        assert go.wait(SECONDS)

    pool = Fakes(on_start=start)
    assert began.wait(SECONDS)
    closing = threading.Thread(target=pool.close)
    closing.start()
    with pool._changed:
        assert pool._changed.wait_for(lambda: pool._closing, SECONDS)
    go.set()
    closing.join(SECONDS)
    assert not closing.is_alive()
    assert [fake.closed for fake in pool.fakes] == [1]


def test_closing_twice_is_the_same_as_once_and_work_after_it_is_refused() -> None:
    with closed(Fakes()) as pool:
        pool.close()
        with pytest.raises(RuntimeError):
            pool.echo(1)


def test_work_that_was_cancelled_before_it_began_is_left_out() -> None:
    began, go, done = threading.Event(), threading.Event(), list[int]()

    def note(_: Fake, number: int) -> None:
        began.set()
        assert go.wait(SECONDS)
        done.append(number)

    with closed(Fakes(on_call=note)) as pool:
        first = pool.echo(1)
        assert began.wait(SECONDS)
        dropped, last = pool.echo(2), pool.echo(3)
        assert dropped.cancel()
        go.set()
        assert first.result(SECONDS)
        assert last.result(SECONDS)
        assert done == [1, 3]
