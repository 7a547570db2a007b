"""A process of the local pool: ``python -m slotwise.batch.worker DIR``.

Orders come as lines of JSON on standard input, what happens goes out as lines of JSON on standard output. The
end of the input means that the sweep is to stop or that its process is gone: the point under way ends with a
checkpoint, and so does the process.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from slotwise.batch.folder import SweepFolder
from slotwise.batch.point import Order, Tasks, Words, train_point
from slotwise.errors import UserError
from slotwise.runs import RunFolder

SECONDS_FOR_A_PREDECESSOR = 10.0


class Orders:
    """The lines of a stream, read in a thread of their own: its end is noticed while a point trains."""

    def __init__(self, stream: TextIO) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.over = False
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def __iter__(self) -> Iterator[Order]:
        while line := self._lines.get():
            yield Order(**json.loads(line))

    def _read(self, stream: TextIO) -> None:
        for line in stream:
            self._lines.put(line)
        self.over = True
        self._lines.put("")


class Mouth:
    """Says things to the sweep's process; if that is gone, to nobody."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, event: str, **more: Any) -> None:
        """One line."""
        with suppress(OSError):  # nobody listens any more; the end of the orders tells so as well
            self._stream.write(json.dumps({"event": event, **more}) + "\n")
            self._stream.flush()


def main() -> None:
    """Carry out orders until there are no more."""
    mouth = Mouth(_own_output())
    orders = Orders(sys.stdin)
    folder, tasks = SweepFolder(Path(sys.argv[1])), Tasks()

    def tell(words: Words) -> None:
        mouth.say("progress", **asdict(words))

    mouth.say("ready")
    for order in orders:
        _await_predecessor(folder.run(order.name))
        reason = train_point(folder, order, tasks.make, tell, lambda: orders.over)
        mouth.say("ended", reason=reason)
        if orders.over:
            return


def _own_output() -> TextIO:
    """Standard output for this protocol alone; what a library prints goes to standard error."""
    descriptor = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _await_predecessor(run: RunFolder) -> None:
    """A process whose sweep was killed saves its point and goes; give it the time."""
    end = time.monotonic() + SECONDS_FOR_A_PREDECESSOR
    while run.is_run and time.monotonic() < end:
        try:
            with run.held():
                return
        except UserError:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
