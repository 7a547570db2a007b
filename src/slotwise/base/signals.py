"""A clean stop on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """Flag that the user has asked to stop early."""

    requested: bool = False


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop with a checkpoint; the second interrupts."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
