"""SharedObject: an object that worker processes load, with its large arrays in memory that they all map."""

from __future__ import annotations

import mmap
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from slotwise.base.errors import UserError
from slotwise.base.extras import require
from slotwise.base.user_code import describe_error

LARGE = 1 << 16  # bytes of an array that is mapped
ALIGNMENT = 64  # bytes, as of the memory that torch and numpy allocate
MEMORY = Path("/dev/shm")


class SharedObject:
    """A pickled object for several processes: its large arrays in an open file, and the rest as bytes.

    The file has no name, and is in memory where the system has such files. All processes map it.
    """

    def __init__(self, value: object, name: str) -> None:
        require("cloudpickle")
        large: list[pickle.PickleBuffer] = []

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            # Pickle leaves a buffer in its bytes if this returns true.
            if buffer.raw().nbytes < LARGE:
                return True
            large.append(buffer)
            return False

        # Classes and functions of a notebook or a script are pickled by value.
        self._pickled = pickled(import_module("cloudpickle"), value, name, is_small)
        self._sizes = [buffer.raw().nbytes for buffer in large]
        # The memory for such files may be small, as in a container.
        for place in (MEMORY, None) if MEMORY.is_dir() else (None,):
            self.file = tempfile.TemporaryFile(dir=place)  # noqa: SIM115
            try:
                self._write(large)
                return
            except OSError as error:
                self.file.close()
                problem = error
        raise UserError(f"{name}: no room for its arrays: {problem.strerror}") from problem

    @property
    def arguments(self) -> tuple[int, bytes, list[int]]:
        """The arguments of `load_shared` in a worker process that has the file."""
        return self.file.fileno(), self._pickled, self._sizes

    def _write(self, buffers: Sequence[pickle.PickleBuffer]) -> None:
        for buffer, (start, _) in zip(buffers, _places(self._sizes), strict=True):
            self.file.seek(start)
            self.file.write(buffer.raw())
        self.file.flush()

    def close(self) -> None:
        """Give the memory back once the processes have ended."""
        self.file.close()


def pickled(module: Any, value: object, name: str, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    """Return an object pickled by a module, or raise a UserError that names it."""
    try:
        content: bytes = module.dumps(value, protocol=5, buffer_callback=callback)
    except Exception as error:
        cannot = f"cannot be sent to another process: {describe_error(error)}"
        raise UserError(f"{name}: {cannot}; use threads") from error
    return content


def load_shared(descriptor: int, content: bytes, sizes: Sequence[int]) -> Any:
    """Return a `SharedObject` in a worker process; its large arrays are read-only."""
    buffers: list[memoryview] = []
    # An empty file cannot be mapped.
    if sizes:
        mapped = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        buffers = [mapped[start:end] for start, end in _places(sizes)]
    return pickle.loads(content, buffers=buffers)


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return where in a file arrays of these sizes begin and end."""
    end = 0
    for size in sizes:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + size
        yield start, end
