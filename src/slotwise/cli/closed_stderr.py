"""Commands of live runs: they go on when the reader of their standard error is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO, cast


class _ClosableStream:
    """A stream that discards output after the first write error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError:
            # Redirect the file itself: the rest of the buffer would fail again when the interpreter exits.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


@contextmanager
def stderr_may_close() -> Iterator[None]:
    """Keep a run going when the reader of its standard error is gone."""
    with redirect_stderr(cast(TextIO, _ClosableStream(sys.stderr))):
        yield
