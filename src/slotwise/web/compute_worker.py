"""Process that computes the answers of the explorer: requests on standard input, answers on standard output.

A request is one line of JSON: ``call`` and ``given``. An answer is one line of JSON with ``status``,
``media_type`` and ``length``, and so many bytes. The end of the input means the end of the process.

Its memory is limited: what needs more is refused. A signal ends the process when an answer has taken too much
time of the processor. That is not the time of the clock, so a busy machine refuses nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from slotwise.web.answers import USE_COMMANDS, Answer, Answers, as_json, refusal

MOST_MEMORY = 3 << 30  # bytes, beyond what the process has when it starts
TOO_LARGE = f"this takes more memory than the explorer has; {USE_COMMANDS}"

FAILED = "slotwise failed to answer; please report this"


def main() -> None:
    """Answer requests; the arguments are the folder of runs and the most seconds of an answer."""
    answers, seconds = Answers(Path(sys.argv[1])), float(sys.argv[2])
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    _limit_memory()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = answers.answer(request["call"], request["given"])
            is_last = False
        except MemoryError:
            answer, is_last = refusal(TOO_LARGE), True  # what is kept may be most of it
        except Exception as error:  # a mistake in slotwise: one request fails, and not the process
            answer, is_last = as_json({"message": f"{FAILED}: {error!r}", "parameter": None}, 500), False
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(output, answer)
        if is_last:
            return


def _write(output: BinaryIO, answer: Answer) -> None:
    header = {"status": answer.status, "media_type": answer.media_type, "length": len(answer.content)}
    output.write(json.dumps(header).encode() + b"\n" + answer.content)
    output.flush()


def _limit_memory() -> None:
    """Limit the address space, where the system can do that."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  (not on every system)

        # Libraries reserve address space that they may never use, so the limit is added to it.
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main()
