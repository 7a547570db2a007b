"""Display of a live run, and its standard error when nothing reads it any more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.cli.live_display import LiveDisplay
from slotwise.cli.progress import Stopping
from slotwise.live.server.inbox import READY_TWICE

SPEAKS = """
import sys
from rich.console import Console
from slotwise.cli.live_display import stderr_may_close

with stderr_may_close():
    for _ in range(3):
        Console(stderr=True).print("bar")
        print("line", file=sys.stderr)
print("done")
"""


@pytest.mark.parametrize(("round_number", "where"), [(0, "the start"), (7, "round 7")])
def test_damaged_checkpoints_are_named_with_where_the_run_resumes(capsys, round_number, where):
    with LiveDisplay(Stopping(), quiet=True) as display:
        display.checkpoints_skipped([Path("run/live/round-9.checkpoint")], round_number)
    named, resumes = capsys.readouterr().err.splitlines()
    assert named.startswith("run/live/round-9.checkpoint")
    assert where in resumes


@pytest.mark.parametrize(("quiet", "lines"), [(False, ["rejected: a/b: bad"]), (True, [])])
def test_each_rejection_is_printed_once(capsys, quiet, lines):
    with LiveDisplay(Stopping(), quiet=quiet) as display:
        for reason in ("bad", READY_TWICE, "bad"):
            display.message_rejected("a/b", reason)
    assert capsys.readouterr().err.splitlines() == lines


def test_a_closed_standard_error_does_not_matter():
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([sys.executable, "-c", SPEAKS], stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stdout) == (0, b"done\n")


def test_an_open_standard_error_gets_everything():
    ended = subprocess.run([sys.executable, "-c", SPEAKS], capture_output=True, check=True)
    assert ended.stderr == b"bar\nline\n" * 3
