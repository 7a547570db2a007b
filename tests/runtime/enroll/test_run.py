"""A whole run over TLS, with the commands that the documentation gives."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TASK = ("--task", "examples.own_task.logistic:make_task")


def begin(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from slotwise.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


@pytest.mark.slow
def test_three_devices_and_a_server_complete_a_run(mosquitto, tmp_path: Path) -> None:
    folder, out = mosquitto.folder, tmp_path / "run"
    alone = tmp_path / "alone"  # what is copied to a device is all it needs
    alone.mkdir()
    for path in (folder / "ca.crt", *folder.glob("device-1.*")):
        shutil.copy(path, alone)
    plan = ("--devices", 3, "--group-size", 1, "--compute-slots", 2, "--deadline", 40)
    processes = [
        begin("serve", "--credentials", folder / "server.toml", "--out", out, *plan, *TASK, "--quiet"),
        begin("device", "--id", 1, "--credentials", alone / "device-1.toml", *TASK),
        begin("fleet", "--first", 2, "--devices", 2, "--credentials", folder, *TASK),
    ]
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    live = json.loads((out / "live.json").read_text())
    assert live["measured"] == live["planned"]
    assert not live["rejected"].keys() - {"ready, said twice"}  # a device that was asked twice answers twice
