"""A small device: what it imports, what it takes, and what it says if a run needs more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import HERE, Mosquitto, Trial, until

NOT_INSTALLED = ("numba", "llvmlite", "matplotlib", "plotly", "pooch", "amqtt", "cryptography")
MOST_RESIDENT = 50e6  # bytes, while it waits for a run
WITHOUT = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_INSTALLED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def small(*arguments, folder):
    """Run slotwise as if only the packages of slotwise-device were installed."""
    (folder / "sitecustomize.py").write_text(WITHOUT)
    paths = [str(folder), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", "from slotwise.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


CHANNEL = ["--devices", "4", "--group-size", "2", "--compute-slots", "2", "--deadline", "20"]


def test_planning_and_training_an_own_task_need_no_extra(tmp_path):
    for command in (["plan"], ["timeline"], ["train", "--task", "tasks:make", "--out", "run", "--quiet"]):
        done = small(*command, *CHANNEL, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("command", "package"),
    [
        (["train", *CHANNEL, "--out", "run"], "numba"),
        (["timeline", *CHANNEL, "--out", "picture.png"], "matplotlib"),
    ],
    ids=["train", "timeline"],
)
def test_a_command_that_needs_an_extra_names_it_and_leaves_nothing_behind(tmp_path, command, package):
    done = small(*command, folder=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert package in line
    assert line.endswith("pip install slotwise")
    assert {path.name for path in tmp_path.iterdir()} <= {"__pycache__", "sitecustomize.py"}


def test_a_device_that_waits_for_a_run_loads_neither_the_server_nor_what_trains():
    program = "import slotwise.cli.device, slotwise.live.transport.mqtt, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    needless = ("runs", "learning", "schedule", "aggregation", "report", "live.server", "data.dataset")
    for package in needless:
        assert f"slotwise.{package}" not in loaded.stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_a_device_that_waits_for_a_run_is_small(tmp_path, monkeypatch):
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # a count of lines takes memory, too
    broker = Mosquitto(tmp_path)
    trial = Trial(tmp_path, broker)
    try:
        device = trial.process("device", *trial.where, "--id", 1)
        until(lambda: "connected to" in device.text, "connection")
        (line,) = (
            line
            for line in Path(f"/proc/{device.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        )
        assert 1024 * int(line.split()[1]) < MOST_RESIDENT
        loaded = Path(f"/proc/{device.pid}/maps").read_text()
        assert not [name for name in NOT_INSTALLED if f"/{name}/" in loaded]
    finally:
        trial.close()
        broker.kill()
