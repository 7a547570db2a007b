"""The same model to the bit: with any number of workers, after a kill, and from the live server."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from live import play, prepare
from slotwise.learning import train
from slotwise.live.server.state import LiveState
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import model_sha256
from slotwise.schedule import scheduler_for

pytest.importorskip("torch")
zoo = pytest.importorskip("torch_zoo")
HERE = Path(__file__).parent
OPTIONS = {
    "devices": 5,
    "group_size": 2,
    "compute_slots": 3,
    "deadline": 26,
    "local_steps": 2,
    "batch_size": 6,
}
CONFIG = RunConfig().with_options(**OPTIONS)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_any_number_of_workers_gives_the_same_model(name: str) -> None:
    task, timeline = getattr(zoo, name)(CONFIG), CONFIG.simulate()
    results = [train(timeline, task, workers=workers, evaluate_every=8) for workers in (1, 2, 4)]
    assert len({model_sha256(history.model) for history in results}) == 1
    assert not np.array_equal(results[0].model, task.initial_model())
    for history in results[1:]:
        for point, first in zip(history.points, results[0].points, strict=True):
            assert (point.loss, point.metrics) == (first.loss, first.metrics)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_the_live_server_makes_the_model_of_the_simulator(name: str) -> None:
    task = getattr(zoo, name)(CONFIG)
    scheduler = scheduler_for(CONFIG.channel, "idfl")
    state = LiveState(scheduler, models={0: task.initial_model()})
    live = play(prepare(CONFIG.channel, "idfl", rounds=6, state=state), task=task)
    simulated = train(live.plan, task, workers=2)
    assert model_sha256(live.models[6]) == model_sha256(simulated.model)


def slotwise(*arguments: object) -> subprocess.Popen[str]:
    code = "from slotwise.cli import main; main()"
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", code, "train", "--quiet", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.NAMES)
def test_a_killed_run_resumes_to_the_same_model(name: str, tmp_path: Path) -> None:
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in OPTIONS.items()]
    out = tmp_path / "run"
    task = ("--task", f"torch_zoo:waiting_{name}", "--out", out, "--checkpoint-every", 0)
    process = slotwise(*flags, *task)
    deadline = time.monotonic() + 200
    while not _rounds(out):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
    process.kill()
    process.communicate()
    document = (out / "run.json").read_text(encoding="utf-8")
    (out / "run.json").write_text(document.replace("waiting_", ""), encoding="utf-8")
    resumed = slotwise("--resume", out, "--workers", 2)
    assert resumed.wait(200) == 0, resumed.communicate()
    resumed.communicate()
    undisturbed = train(CONFIG.simulate(), getattr(zoo, name)(CONFIG), workers=1)
    assert RunFolder(out).description()["model_sha256"] == model_sha256(undisturbed.model)


def _rounds(out: Path) -> int:
    """Return the rounds in the newest checkpoint."""
    folder = RunFolder(out)
    history = folder.checkpoints.load()[0] if folder.is_run else None
    return 0 if history is None else history.rounds
