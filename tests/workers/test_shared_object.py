import errno
import os
import threading
from collections.abc import Sequence
from pickle import PickleBuffer

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.workers import SharedObject, load_shared
from slotwise.workers.shared_object import MEMORY


def shared_array(size: int) -> SharedObject:
    return SharedObject({"data": np.arange(size, dtype=np.float32)}, "task Counting")


def test_large_arrays_of_a_shared_object_are_mapped_and_read_only() -> None:
    for size in (10, 300_000):
        shared = shared_array(size)
        assert os.fstat(shared.file.fileno()).st_size == (4 * size if size > 10 else 0)
        data = load_shared(*shared.arguments)["data"]
        assert data.tolist() == list(range(size))
        assert data.flags.writeable == (size == 10)
        shared.close()
    with pytest.raises(UserError, match=r"task x: cannot be sent to another process: .*; use threads"):
        SharedObject(threading.Lock(), "task x")


@pytest.mark.parametrize("failures", [1, 2])
def test_arrays_that_have_no_room_in_memory_are_put_into_a_file(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = SharedObject._write, [OSError(errno.ENOSPC, "No space left on device")] * failures

    def write_later(task: SharedObject, buffers: Sequence[PickleBuffer]) -> None:
        if left:
            raise left.pop()
        write(task, buffers)

    monkeypatch.setattr(SharedObject, "_write", write_later)
    if failures == 1 and MEMORY.is_dir():
        shared = shared_array(300_000)
        assert os.fstat(shared.file.fileno()).st_size == 4 * 300_000
        shared.close()
    else:
        with pytest.raises(UserError, match="task Counting: no room for its arrays: No space left"):
            shared_array(300_000)
