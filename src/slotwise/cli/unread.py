"""Standard error whose reader may go away while a run goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO, cast


class _MayGoUnread:
    """A stream that goes to nowhere from the first time on that it cannot be written to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._heedless(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._heedless(self._stream.flush)

    def _heedless(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError:
            # Not only this once: what is left in its buffer would fail again when the interpreter ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def stderr_may_go_unread() -> Iterator[None]:
    """What is said of a run is for whoever listens; that nobody does any more must not end it."""
    with redirect_stderr(cast(TextIO, _MayGoUnread(sys.stderr))):
        yield
