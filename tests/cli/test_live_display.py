"""Display of a live run, and its standard error when nothing reads it any more."""

import os
import subprocess
import sys

import pytest

from slotwise.base.observer import Stop
from slotwise.cli.serve import LiveDisplay
from slotwise.live.server.events import EventLog
from slotwise.live.server.inbox import READY_TWICE

SPEAKS = """
import sys
from rich.console import Console
from slotwise.cli.app import stderr_may_close

with stderr_may_close():
    for _ in range(3):
        Console(stderr=True).print("bar")
        print("line", file=sys.stderr)
print("done")
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_each_rejection_is_printed_once(capsys, quiet):
    with LiveDisplay(Stop(), quiet=quiet) as display:
        log = EventLog(display)
        for reason in ("bad", READY_TWICE, "bad"):
            log.rejected("a/b", reason, harmless=reason == READY_TWICE)
    (line,) = capsys.readouterr().err.splitlines()
    assert "rejected" in line
    assert "a/b" in line
    assert "bad" in line


def test_standard_error_gets_everything_and_may_be_closed():
    ended = subprocess.run([sys.executable, "-c", SPEAKS], capture_output=True, check=True)
    assert ended.stderr == b"bar\nline\n" * 3
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([sys.executable, "-c", SPEAKS], stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stdout) == (0, b"done\n")
