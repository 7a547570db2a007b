"""The reference device in C: it speaks the protocol, and trains to the simulator's bits."""

import json
import os
import subprocess
import sys

import pytest
from c_programs import CHECKS, EXAMPLE, MQTT, build, make_task_importable
from processes import PATIENT, UNBOUNDED, Mosquitto, Trial

from live import simulated_models
from slotwise.runs import RunFolder
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256

pytestmark = pytest.mark.slow

TASK = "logistic_task:make"
VECTORS = json.loads((EXAMPLE.parents[1] / "docs/protocol-vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("c"), MQTT)


@pytest.fixture(scope="session")
def checked_program(tmp_path_factory):
    """The device, built so that reading outside of an array ends it."""
    return build(tmp_path_factory.mktemp("checked"), MQTT, *CHECKS)


@pytest.fixture
def trial(tmp_path, monkeypatch):
    make_task_importable(monkeypatch)
    broker = Mosquitto(tmp_path)
    started = Trial(tmp_path, broker)
    assert started.wire
    yield started
    started.close()
    broker.kill()


class CDevices:
    """Processes of the C device."""

    def __init__(self, trial, program):
        self._trial, self._program, self.processes = trial, program, []

    def start(self, *numbers):
        for number in numbers:
            where = ["127.0.0.1", str(self._trial.broker.port), "test", str(number)]
            self.processes.append(subprocess.Popen([self._program, *where]))

    def end(self):
        return [process.wait(PATIENT) for process in self.processes]


@pytest.fixture
def c_devices(trial, program):
    devices = CDevices(trial, program)
    yield devices
    for process in devices.processes:
        process.kill()
        process.wait()


def assert_as_simulated(trial):
    config = RunFolder.open(trial.out).parameters()
    plan = config.simulate()
    expected = simulated_models(plan, build_task(config))
    assert trial.run["status"] == "finished"
    assert trial.run["rounds"] == plan.rounds
    assert trial.run["model_sha256"] == model_sha256(expected[plan.rounds])
    assert trial.run["final"]["accuracy"] > 0.9
    assert not trial.serious_rejections


def test_a_run_of_c_and_python_devices_gives_the_simulators_model(trial, c_devices):
    server = trial.serve(*UNBOUNDED, task=TASK, devices=6, group_size=2, deadline=120)
    c_devices.start(1, 2, 4, 6)
    fleet = [trial.device(number, task=TASK) for number in (3, 5)]
    server.ends()
    assert c_devices.end() == [0, 0, 0, 0]
    for device in fleet:
        device.ends()
    assert_as_simulated(trial)


def test_a_run_of_c_devices_survives_a_restart_of_the_broker(trial, c_devices):
    server = trial.serve(task=TASK, devices=3, group_size=1, deadline=2000)
    c_devices.start(1, 2, 3)
    trial.wire.round_reached(5)
    trial.broker.kill()
    trial.broker.start()
    server.ends()
    assert c_devices.end() == [0, 0, 0]
    assert trial.run["status"] == "finished"


@pytest.mark.parametrize(
    "arguments",
    ["", "h 1 n 0", "h 1 n x", f"h 1 {'n' * 65} 1", "h x n 1", "h 0 n 1", "h 65536 n 1", "h 1 n/+ 1"],
)
def test_wrong_arguments_are_refused(program, arguments):
    done = subprocess.run([program, *arguments.split()], capture_output=True, check=False)
    assert done.returncode == 2


def decoded(program, vector):
    return subprocess.run(
        [program, "--decode"],
        input=bytes.fromhex(vector["hex"]),
        capture_output=True,
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )


def test_it_reads_the_published_messages(checked_program):
    for vector in VECTORS["messages"]:
        if "packed" in vector:
            continue  # it neither sends nor receives packed numbers
        expected = " ".join(map(str, [*vector["label"].values(), len(vector.get("numbers", []))]))
        found = decoded(checked_program, vector)
        assert found.stdout.decode().strip() == expected.strip(), (vector["name"], found.stderr)


def test_it_refuses_malformed_messages_and_does_not_read_outside_of_them(checked_program):
    for vector in VECTORS["malformed"]:
        found = decoded(checked_program, vector)
        assert found.returncode == 1, (vector["name"], found.stderr)
        assert not found.stderr


def test_the_task_is_importable_on_its_own():
    code = "import logistic_task as t, slotwise as sw; print(len(t.LogisticRegression(2).initial_model()))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLE, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "9"
