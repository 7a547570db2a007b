"""A short version of benchmarks/fuzz.py: random command lines end with a message, never with a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"


@pytest.mark.slow
def test_random_command_lines_are_carried_out_or_refused() -> None:
    command = [sys.executable, str(FUZZ), "--quick", "--cases", "25", "--first", "500"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 seeds failed" in done.stdout
