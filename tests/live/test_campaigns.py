"""Short versions of the campaigns in benchmarks/: random faults, and attacks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENT, Mosquitto

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.slow


def run(script, *options):
    command = [sys.executable, str(BENCHMARKS / script), *options]
    done = subprocess.run(
        command, check=False, cwd=BENCHMARKS, capture_output=True, text=True, timeout=2 * PATIENT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_random_faults_leave_every_run_complete_and_right(tmp_path):
    Mosquitto(tmp_path).kill()  # skips the test if there is none
    text = run("chaos.py", "--faults", "9", "--each", "3", "--seed", "3", "--keep", tmp_path / "runs")
    assert "on mosquitto" in text
    assert "on embedded broker" in text
    assert "on TLS" in text
    found = re.search(r"faults (\d+)  runs (\d+)  completed (\d+)  hung 0  wrong 0", text)
    faults, runs, completed = map(int, found.groups())
    assert (faults, completed) == (9, runs)


def test_a_poisoned_update_harms_neither_the_model_nor_its_victims():
    text = run("attacks.py", "--only", "one update of -1e20, no", "--deadline", "150")
    assert re.search(r"no norm bound +finished .* excluded 1; rolled back 1", text)
