"""Live runs over UDP with real processes: the models are the simulator's."""

import json
import signal

import numpy as np
import pytest
from processes import Process, free_port, until

from live import simulated_models
from slotwise.cli.app import run as main
from slotwise.live import replay
from slotwise.runs import RunFolder
from slotwise.runs.run_folder import model_sha256
from slotwise.schedule import Timeline

PLAN = ("--devices", 5, "--group-size", 2, "--compute-slots", 4)
TASK = ("--task", "tasks:make_slow")


@pytest.fixture
def enrolled(tmp_path):
    folder = tmp_path / "enrolled"
    where = ("--host", "127.0.0.1", "--port", str(free_port()))
    assert main(["enroll", str(folder), "--udp", "--devices", "5", *where]) == 0
    return folder


@pytest.fixture
def begin(tmp_path):
    started = []

    def start(*arguments):
        pace = {"SECONDS_OF_TRAINING": "0.02"}
        started.append(Process(tmp_path, *arguments, environment=pace))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def assert_as_simulated(out):
    folder = RunFolder.open(out)
    plan = folder.parameters().simulate()
    run = json.loads((out / "run.json").read_text())
    models = simulated_models(plan)
    assert (run["status"], run["rounds"]) == ("finished", plan.rounds)
    assert run["model_sha256"] == model_sha256(models[max(models)])


@pytest.mark.slow
@pytest.mark.parametrize("multicast", [False, True])
def test_processes_over_udp_give_the_simulators_model(enrolled, begin, tmp_path, multicast):
    out = tmp_path / "run"
    server = ("serve", "--credentials", enrolled / "server.toml", "--frame-bytes", 300, "--out", out)
    group = ("--multicast", f"239.255.0.1:{free_port()}") if multicast else ()
    served = begin(*server, *PLAN, *group, "--deadline", 60, "--task", "tasks:make", "--quiet")
    device = begin("device", "--id", 1, "--credentials", enrolled / "device-1.toml", *TASK)
    fleet = begin("fleet", "--first", 2, "--devices", 4, "--credentials", enrolled, *TASK)
    for process in (served, device, fleet):
        process.ends()
    assert_as_simulated(out)


@pytest.mark.slow
def test_a_server_and_a_device_that_are_killed_return_over_udp(enrolled, begin, tmp_path):
    out = tmp_path / "run"
    login = ("--credentials", enrolled / "server.toml", "--quiet", "--checkpoint-every", 0)
    served = begin("serve", *login, "--out", out, *PLAN, "--deadline", 200, "--task", "tasks:make")
    fleet = begin("fleet", "--first", 1, "--devices", 4, "--credentials", enrolled, *TASK)
    lone = ("device", "--id", 5, "--credentials", enrolled / "device-5.toml", "--keepalive", 2, *TASK)
    device = begin(*lone)
    until(lambda: len(list((out / "live").glob("*.checkpoint"))), "checkpoint")
    device.signal(signal.SIGKILL)
    device = begin(*lone)
    served.kill9()
    served = begin("serve", *login, "--resume", out)
    for process in (served, fleet, device):
        process.ends()
    run = json.loads((out / "run.json").read_text())
    plan = RunFolder.open(out).parameters().simulate()
    assert (run["status"], run["rounds"]) == ("finished", plan.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("multicast", [False, True])
def test_processes_send_in_slots_that_were_granted_ahead(enrolled, begin, tmp_path, multicast):
    out = tmp_path / "run"
    group = ("--multicast", f"239.255.0.1:{free_port()}") if multicast else ()
    slots = ("--grants-ahead", "--slot-ms", 150, "--clip-norm", "off")
    login = ("--credentials", enrolled / "server.toml", "--out", out, "--quiet")
    served = begin("serve", *login, *PLAN, *group, *slots, "--deadline", 60, "--task", "tasks:make")
    device = begin("device", "--id", 1, "--credentials", enrolled / "device-1.toml", *TASK)
    fleet = begin("fleet", "--first", 2, "--devices", 4, "--credentials", enrolled, *TASK)
    for process in (served, device, fleet):
        process.ends()
    run = json.loads((out / "run.json").read_text())
    plan = RunFolder.open(out).parameters().simulate()
    assert (run["status"], run["rounds"]) == ("finished", plan.rounds)
    # Late uplinks are possible on a busy machine; they are lost, and what is recorded gives the same model.
    assert run["model_sha256"] == model_sha256(replay(out))
    measured = Timeline.from_json((out / "timeline.json").read_text())
    record = json.loads((out / "slots.json").read_text())
    assert record["outcomes"].get("arrived", 0) == len(measured.device)
    assert sum(record["outcomes"].values()) == len(measured.device) + len(measured.lost)
    assert [use[1:5:3] for use in record["uses"] if use[5] == "arrived"] == np.column_stack(
        [measured.device, measured.end]
    ).tolist()
    assert main(["show", str(out), "--gantt", str(tmp_path / "slots.svg")]) == 0
