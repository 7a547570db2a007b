"""Standard error whose reader has gone."""

import os
import subprocess
import sys

SPEAKS = """
import sys
import typer
from rich.console import Console
from slotwise.cli.unread import stderr_may_go_unread

with stderr_may_go_unread():
    for _ in range(3):
        Console(stderr=True).print("bar")
        typer.echo("line", err=True)
print("done")
"""


def test_nobody_minds_that_nobody_reads():
    reader, writer = os.pipe()
    os.close(reader)
    said = subprocess.run([sys.executable, "-c", SPEAKS], stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (said.returncode, said.stdout) == (0, b"done\n")


def test_who_reads_reads_all():
    said = subprocess.run([sys.executable, "-c", SPEAKS], capture_output=True, check=True)
    assert said.stderr == b"bar\nline\n" * 3
