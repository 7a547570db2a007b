"""slotwise explore as a process, and what it refuses."""

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

COMMAND = [sys.executable, "-c", "from slotwise.cli import main; main()", "explore"]


def test_the_address_is_printed_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    started = subprocess.Popen([*COMMAND, "--no-browser"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert started.stdout is not None
    line = started.stdout.readline()
    address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
    with urllib.request.urlopen(address) as answer:
        assert b"slotwise" in answer.read()
    # The usual port may be taken: another one is found.
    second = subprocess.Popen([*COMMAND, "--no-browser"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert second.stdout is not None
    assert address not in second.stdout.readline()
    for process in (started, second):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout.close()  # type: ignore[union-attr]
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_refused(slotwise) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, errors = slotwise("explore", "--no-browser", "--port", port)
    assert code == 2
    assert f"--port {port}" in errors
