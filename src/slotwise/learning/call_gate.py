"""CallGate: whether a task may compute in several threads at once, by the memory of what it returns."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Lock, get_ident
from typing import Any

import numpy as np

from slotwise.aggregation import Vector


class CallGate:
    """Lets one thread after another call a task until two threads have got arrays of different memory.

    A task that returns the same array to all threads stays at one call at a time. Otherwise one training
    would overwrite the result of another before it is copied.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        """Begin with one call at a time, unless the gate ``is_open`` from the start."""
        self._open, self._lock = is_open, Lock()
        self._first: tuple[int, Vector] | None = None  # thread and array of the first call
        self._decided = is_open

    def __reduce__(self) -> tuple[Any, ...]:
        return _gate, (self._open,)  # a lock cannot be sent; threads elsewhere find out for themselves

    def turn(self) -> AbstractContextManager[object]:
        """Return the context in which the task is called, its result noted and copied."""
        return nullcontext() if self._open else self._lock

    def note(self, update: Vector) -> None:
        """Note an update that this thread was returned, in its turn."""
        if self._decided:
            return
        thread = get_ident()
        if self._first is None:
            self._first = thread, update  # kept, so that no other array gets its memory
        elif thread != self._first[0]:
            self._open = not np.may_share_memory(update, self._first[1])
            self._first, self._decided = None, True


def _gate(is_open: bool) -> CallGate:
    return CallGate(is_open=is_open)
