"""Live runs whose schedule is decided by what is learned: the simulated models to the bit, also resumed."""

import asyncio
import json

import pytest
from memory_run import CONFIG, devices_on, half_a_second, live_run, serve_in_memory
from virtual_time import run_virtual

from live import TOPICS
from slotwise import RunConfig, Timeline, run, train
from slotwise.live import ServerConfig, replay
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker
from slotwise.runs import RunFolder, SavedRun
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256

BASE = {
    **{"devices": 8, "group_size": 2, "compute_slots": 3, "deadline": 60, "network": "logistic"},
    **{"samples_per_device": 12, "batch_size": 4, "local_steps": 2, "evaluate_every": 15},
}
CASES = {
    "power-of-choice": {"schedule": "sync", "participation": "power-of-choice", "choice_candidates": 4},
    "oort": {"schedule": "sync", "participation": "oort"},
    "update-norm": {"schedule": "sync", "participation": "update-norm", "bits": 8},
    "own participants": {"schedule": "sync", "participation": "own_live_agents:quiet"},
    "group rule": {"schedule": "idfl", "delay": 1, "group_rule": "shrink-when-stalled", "stall_rounds": 2},
    "own group rule": {
        **{"schedule": "async", "group_rule": "own_live_agents:size"},
        **{"group_rule_options": {"largest": 3}},
    },
    "own": {
        "schedule": "async",
        "selection": "own_live_agents:largest",
        "selection_options": {"weight": 2.0},
    },
}
OWN = """
import numpy as np

def largest(decision, learning, *, weight: float = 1.0):
    score = np.nan_to_num(learning.norms, nan=9.0) + weight * np.nan_to_num(learning.losses, nan=9.0)
    return max(decision.allowed, key=lambda n: score[n - 1])

def quiet(decision, learning):
    norms = np.nan_to_num(learning.norms, nan=0.0)
    return sorted(decision.allowed, key=lambda n: norms[n - 1])[: decision.count]

def size(decision, learning, *, largest: int = 2):
    return 1 + len(learning.round_losses) % largest

def wrong(decision, learning):
    return 99
"""


@pytest.fixture(autouse=True)
def _own(tmp_path, monkeypatch):
    (tmp_path / "own_live_agents.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


def config_of(case):
    return RunConfig.from_options({**BASE, **CASES[case]})


def played(path, config, **how):
    return serve_in_memory(path, config=config, task=build_task(config), clip_norm="off", **how)


def described(path):
    return json.loads((path / "run.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_a_live_run_decides_as_a_simulation_and_its_timeline_gives_its_model(case, tmp_path):
    config = config_of(case)
    outcome = played(tmp_path / "live", config)
    simulated = run(config, tmp_path / "simulated", workers=1)
    assert outcome.status == "finished"
    live, other = described(tmp_path / "live"), described(tmp_path / "simulated")
    assert live["model_sha256"] == other["model_sha256"]
    assert live["rounds"] == simulated.timeline.rounds
    assert tuple(outcome.state.points) == simulated.history.points
    recorded = Timeline.from_json((tmp_path / "live" / "timeline.json").read_text())
    assert recorded == simulated.timeline
    history = train(recorded, build_task(config), aggregation=config.rule, workers=1)
    assert model_sha256(history.model) == live["model_sha256"]
    assert model_sha256(replay(tmp_path / "live")) == live["model_sha256"]
    saved = SavedRun.read(tmp_path / "live")
    assert saved.measured == saved.planned == recorded


class StopAt(LiveObserver):
    """Stops after a round."""

    def __init__(self, round_number):
        self.last, self.stopped = round_number, False

    def round_done(self, round_number):
        self.stopped = round_number >= self.last

    def wants_stop(self):
        return self.stopped


@pytest.mark.parametrize("case", ["oort", "own group rule", "own"])
def test_a_stopped_run_decides_the_same_when_it_is_resumed(case, tmp_path):
    config = config_of(case)
    whole = played(tmp_path / "whole", config)
    server = ServerConfig(name=TOPICS.name, clip_norm="off")

    async def scenario(clock):
        broker, folder = MemoryBroker(), new_live_folder(tmp_path / "run", config, server)
        task = build_task(config)
        async with devices_on(broker, half_a_second(clock), 8, task):
            for observer in (StopAt(2), StopAt(5), None):
                async with broker.connect() as channel:
                    how = {"config": config, "task": task, "server": server, "clock": clock}
                    outcome = await live_run(folder, channel, observer=observer, **how)
                folder = RunFolder.open(tmp_path / "run")
                await asyncio.sleep(0)
        return outcome

    assert run_virtual(scenario).status == "finished"
    assert described(tmp_path / "run")["model_sha256"] == described(tmp_path / "whole")["model_sha256"]
    assert (tmp_path / "run/timeline.json").read_text() == (tmp_path / "whole/timeline.json").read_text()
    assert len(whole.state.points) == len(SavedRun.read(tmp_path / "run").points)


def test_a_wrong_answer_ends_the_run_in_one_line(tmp_path):
    config = RunConfig.from_options({**BASE, "schedule": "async", "selection": "own_live_agents:wrong"})
    with pytest.raises(
        Exception, match="selection own_live_agents:wrong: returned sender = 99: must be one of"
    ) as refused:
        played(tmp_path / "live", config)
    assert "\n" not in str(refused.value)
    assert described(tmp_path / "live")["status"] == "interrupted"


def test_decisions_by_losses_need_devices_that_report_them(tmp_path):
    config = CONFIG.with_options(schedule="sync", participation="oort")
    with pytest.raises(Exception, match="participation = oort: must be used with a task that says losses"):
        serve_in_memory(tmp_path / "live", config=config)
