"""An executor whose threads are abandoned when the process ends."""

import subprocess
import sys
import threading

import pytest

from slotwise.base.daemon_threads import DaemonThreads


def test_calls_give_results_and_errors_in_at_most_so_many_threads() -> None:
    pool, names, gate = DaemonThreads(2, "test"), set(), threading.Barrier(2)

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        gate.wait(60)  # both threads are needed
        return 10 // number

    futures = [pool.submit(work, number) for number in (1, 2, 5, 0)]
    assert [future.result(60) for future in futures[:3]] == [10, 5, 2]
    with pytest.raises(ZeroDivisionError):
        futures[3].result(60)
    assert len(names) == 2


def test_calls_that_have_not_begun_are_dropped() -> None:
    pool, begun, gate = DaemonThreads(1, "test"), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(60)

    first, second = pool.submit(work), pool.submit(work)
    assert begun.wait(60)
    pool.shutdown(cancel_futures=True)
    assert second.cancelled()
    gate.set()
    first.result(60)


def test_a_call_that_never_ends_does_not_keep_the_process_alive() -> None:
    program = (
        "import threading; from slotwise.base.daemon_threads import DaemonThreads\n"
        "begun = threading.Event()\n"
        "DaemonThreads(1, 'stuck').submit(lambda: (begun.set(), threading.Event().wait()))\n"
        "assert begun.wait(60)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
