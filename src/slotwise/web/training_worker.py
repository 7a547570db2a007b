"""One training of the explorer, in its own process: options on standard input, events on standard output.

The first line of input is a JSON table with ``options`` and ``out``. The end of the input means stop, so a
training ends with a checkpoint also if the server that started it is killed. Each line of output is an event.
"""

from __future__ import annotations

import json
import os
import sys
import time
from threading import Event, Thread
from typing import Any, TextIO

from slotwise.errors import InputError, UserError
from slotwise.learning import Diverged, History, Point
from slotwise.runs import Observer, RunConfig, run
from slotwise.schedule import Timeline

PROGRESS_INTERVAL = 0.2  # seconds between two reports of progress
NICENESS = 5  # the pages that are being looked at come first


class _Reporter(Observer):
    """Writes events, and asks to stop when the input ends."""

    def __init__(self, output: TextIO) -> None:
        self._output, self._stop, self._reported = output, Event(), 0.0

    def report(self, event: str, **values: Any) -> None:
        """Write an event as one line."""
        self._output.write(json.dumps({"event": event, **values}) + "\n")
        self._output.flush()

    def wants_stop(self) -> bool:
        return self._stop.is_set()

    def watch_input(self) -> None:
        """Wait for the end of the input in a thread."""

        def wait() -> None:
            sys.stdin.read()
            self._stop.set()

        Thread(target=wait, daemon=True).start()

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:  # noqa: ARG002
        self.report("started", rounds=timeline.rounds, slots=timeline.last_slot)

    def round_done(self, round_number: int) -> None:
        if time.monotonic() - self._reported >= PROGRESS_INTERVAL:
            self._reported = time.monotonic()
            self.report("round", round=round_number + 1)

    def evaluated(self, point: Point) -> None:
        self.report("point", slot=point.slot, round=point.round, loss=point.loss, accuracy=point.accuracy)


def main() -> None:
    """Train what the input says."""
    os.nice(NICENESS)
    request = json.loads(sys.stdin.readline())
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no event
    reporter = _Reporter(output)
    reporter.watch_input()
    try:
        config = RunConfig.from_options(request["options"], defaults=request["defaults"])
        result = run(config, request["out"], observer=reporter)
        reporter.report("ended", status=result.status, rounds=result.history.rounds)
    except Diverged as error:
        reporter.report("ended", status="diverged", rounds=error.round)
    except UserError as error:
        parameter = error.parameter if isinstance(error, InputError) else None
        reporter.report("ended", status="refused", message=str(error), parameter=parameter)


if __name__ == "__main__":
    main()
