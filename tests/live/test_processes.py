"""Faults, each with real processes over a real broker. All rounds get done, and nothing counts twice."""

import json
import signal

import numpy as np
import pytest
from processes import PATIENT, UNBOUNDED, Embedded, Mosquitto, Trial, accepts, until
from tasks import Arithmetic

from live import simulated_models
from slotwise import run
from slotwise.learning.quantisation import Quantised
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path):
    mosquitto = Mosquitto(tmp_path)
    yield mosquitto
    mosquitto.kill()


@pytest.fixture
def trial(tmp_path, broker):
    started = Trial(tmp_path, broker)
    assert started.wire  # listens from now on
    yield started
    started.close()


def plan_of(trial):
    return RunFolder.open(trial.out).parameters().simulate()


def assert_all_rounds_done_once(trial):
    assert trial.run["status"] == "finished"
    assert trial.run["rounds"] == plan_of(trial).rounds
    assert len({(device, version) for _, device, version in trial.uplinks}) == len(trial.uplinks)


def assert_as_simulated(trial, task=None):
    assert_all_rounds_done_once(trial)
    expected = simulated_models(plan_of(trial), task)
    assert trial.run["model_sha256"] == model_sha256(expected[max(expected)])
    heard = trial.wire.models()
    for version in heard.keys() & expected.keys():
        assert np.array_equal(heard[version], expected[version]), version


@pytest.mark.parametrize("schedule", ["async", "idfl"])
def test_the_worked_examples_models_on_the_wire_are_the_simulators_to_the_bit(trial, schedule):
    server = trial.serve("--schedule", schedule, devices=6, group_size=2, compute_slots=2)
    fleet = trial.fleet(devices=6)
    server.ends()
    fleet.ends()
    trial.wire.catch_up()
    assert_as_simulated(trial)
    assert trial.wire.models().keys() == set(range(plan_of(trial).models))
    assert not trial.serious_rejections


def test_quantised_updates_are_packed_on_the_wire_and_the_models_are_the_simulators(trial):
    config = trial.folder / "bits.toml"
    config.write_text("bits = 5\n")
    server, fleet = trial.serve("--config", config), trial.fleet()
    server.ends()
    fleet.ends()
    trial.wire.catch_up()
    task = Quantised(Arithmetic(), 5)
    assert_as_simulated(trial, task)
    packed = [frame.packed for topic, frame in trial.wire.messages if topic.endswith("/update")]
    assert {len(numbers) for numbers in packed} == {task.packing.size} == {4 + -(-500 * 5 // 8)}


def test_a_device_killed_while_computing_costs_no_round_and_may_come_back(trial):
    server, _ = trial.serve(deadline=150), trial.fleet(devices=4, gated_from=4)
    victim = trial.device(5, gated_from=1)
    trial.has_work(5)
    victim.kill9()
    trial.wire.wait_for(lambda topic, frame: topic == "from/5/gone", "last will of device 5")
    gone_in, said_before = max(trial.wire.models()), trial.wire.count("from/5/here")
    trial.device(5)
    until(lambda: trial.wire.count("from/5/here") > said_before, "word from the device that is back")
    trial.open_gate()
    server.ends()
    assert_all_rounds_done_once(trial)
    assert any(device == 5 and k > gone_in for k, device, _ in trial.uplinks)


def test_a_device_killed_while_sending_costs_no_round(trial):
    server, _ = trial.serve(), trial.fleet(devices=2)
    trial.fleet(devices=2, first=4)
    rogue = trial.rogue()
    rogue.ends(-signal.SIGKILL)
    server.ends()
    assert_all_rounds_done_once(trial)
    assert not any(device == 3 for _, device, _ in trial.uplinks)


@pytest.mark.parametrize("where", ["all/model", "from/2/update"], ids=["between rounds", "inside a round"])
def test_a_server_that_was_killed_resumes_with_the_devices_still_connected(trial, where):
    server, fleet = trial.serve(), trial.fleet(gated_from=3)
    trial.wire.wait_for(lambda topic, frame: topic.startswith(where) and frame.label.round >= 3, where)
    server.kill9()
    assert trial.run["status"] == "running"
    assert fleet.process.poll() is None
    server = trial.resume()
    trial.open_gate()
    server.ends()
    fleet.ends()
    assert_as_simulated(trial)


def test_a_killed_server_decides_the_same_by_what_is_learned_when_it_resumes(trial, tmp_path):
    choice = ("--participation", "update-norm", "--norm-candidates", "5")
    server, fleet = trial.serve("--schedule", "sync", *choice), trial.fleet(gated_from=3)
    trial.wire.wait_for(lambda topic, frame: "/update" in topic and frame.label.round >= 3, "inside a round")
    server.kill9()
    assert trial.run["status"] == "running"
    server = trial.resume()
    trial.open_gate()
    server.ends()
    fleet.ends()
    simulated = run(RunFolder.open(trial.out).parameters(), tmp_path / "simulated", task=Arithmetic())
    assert trial.run["status"] == "finished"
    assert trial.run["model_sha256"] == model_sha256(simulated.history.model)
    assert RunFolder.open(trial.out).read().measured == simulated.timeline


def test_a_server_that_was_killed_together_with_its_own_broker_resumes_with_the_devices(tmp_path):
    trial = Trial(tmp_path, Embedded(tmp_path))
    try:
        server = trial.serve()
        until(lambda: accepts(trial.broker.port), "broker")
        fleet = trial.fleet(gated_from=3)
        until(lambda: len(trial.checkpoints) > 1, "checkpoints")
        server.kill9()
        assert fleet.process.poll() is None
        server = trial.resume()
        trial.open_gate()
        server.ends()
        fleet.ends()
        assert trial.run["status"] == "finished"
        expected = simulated_models(plan_of(trial))
        assert trial.run["model_sha256"] == model_sha256(expected[max(expected)])
    finally:
        trial.close()


def test_devices_in_several_processes_train_as_simulated(trial):
    server, fleet = trial.serve(), trial.fleet("--processes", "2")
    server.ends()
    fleet.ends()
    assert_as_simulated(trial)


def test_an_excluded_device_waits_and_ends_with_the_run(trial):
    server, _ = trial.serve(), trial.fleet(devices=4)
    broken = trial.device(5, task="tasks:make_broken")
    server.ends()
    broken.ends(3)
    assert "device 5: excluded by the server" in broken.text
    assert_all_rounds_done_once(trial)
    assert not any(device == 5 for _, device, _ in trial.uplinks)


def test_devices_hear_the_end_even_if_the_server_was_killed_before_it_could_say_so(trial):
    server, fleet = trial.serve(), trial.fleet()
    server.ends()
    fleet.ends()
    trial.wire.call_again()
    fleet = trial.fleet()
    trial.wire.wait_for(lambda topic, frame: topic == "from/5/here", "word from device 5")
    server = trial.resume()
    server.ends()
    assert "finished already" in server.text
    fleet.ends()


def test_server_and_devices_that_were_stopped_together_go_on_together(trial):
    server, fleet = trial.serve(), trial.fleet(gated_from=3)
    trial.wire.round_reached(4)
    for process in (fleet, server):
        process.signal(signal.SIGTERM)
    server.ends(130)
    fleet.ends(130)
    server, fleet = trial.resume(), trial.fleet()
    server.ends()
    fleet.ends()
    assert_all_rounds_done_once(trial)


@pytest.mark.parametrize("die", [Mosquitto.kill, Mosquitto.stop], ids=["killed", "stopped"])
def test_server_and_devices_survive_a_broker_that_is_started_again(trial, broker, die):
    server, fleet = trial.serve(), trial.fleet(gated_from=3)
    trial.wire.round_reached(4)
    die(broker)
    assert trial.run["status"] == "running"
    broker.start()
    trial.open_gate()
    server.ends()
    fleet.ends()
    assert_as_simulated(trial)


def test_a_frozen_device_costs_no_round_and_takes_part_again_when_it_thaws(trial):
    server = trial.serve("--timeout", "6", "--longest-training", PATIENT, deadline=150)
    trial.fleet(devices=4, gated_from=8)
    frozen = trial.device(5, "--keepalive", "600", gated_from=1)  # the broker does not miss it
    trial.has_work(5)
    frozen.signal(signal.SIGSTOP)
    until(lambda: "from/5/ready: missing after 6 s" in trial.rejections, "word that device 5 is missing")
    thawed_in, said_before = max(trial.wire.models()), trial.wire.count("from/5/here")
    frozen.signal(signal.SIGCONT)
    until(lambda: trial.wire.count("from/5/here") > said_before, "word from the device that has thawed")
    trial.open_gate()
    server.ends()
    assert_all_rounds_done_once(trial)
    assert any(device == 5 and k > thawed_in for k, device, _ in trial.uplinks)


def test_a_server_that_was_stopped_while_it_waited_for_devices_waits_again_when_resumed(trial):
    server = trial.serve()
    trial.wire.wait_for(lambda topic, frame: topic == "all/call", "call")
    server.signal(signal.SIGINT)
    server.ends(130)
    assert "resume with: slotwise serve --resume" in server.text
    server = trial.resume()
    fleet = trial.fleet()
    server.ends()
    fleet.ends()
    assert_as_simulated(trial)


def test_a_device_whose_training_fails_says_so_and_leaves(trial):
    server = trial.serve()
    trial.fleet(devices=4)
    failing = trial.device(5, task="tasks:make_failing")
    failing.process.wait(PATIENT)
    assert failing.returncode != 0
    server.ends()
    assert_all_rounds_done_once(trial)
    trial.wire.catch_up()
    assert trial.wire.count("from/5/gone") == 1
    assert not trial.serious_rejections


MNIST = {"devices": 20, "group_size": 5, "compute_slots": 10, "deadline": 70}


@pytest.fixture(scope="module")
def mnist_models():
    """w_1, …, w_K of twenty MNIST devices, as simulated."""
    parameters = RunConfig.from_options(MNIST)
    return simulated_models(parameters.simulate(), build_task(parameters))


@pytest.mark.parametrize("kind", [Mosquitto, Embedded])
def test_twenty_mnist_devices_train_as_simulated(tmp_path, kind, mnist_models):
    broker = kind(tmp_path)
    trial = Trial(tmp_path, broker)
    try:
        server = trial.serve(*UNBOUNDED, task=None, **MNIST)
        until(lambda: accepts(broker.port), "broker")
        heard = trial.wire
        fleet = trial.fleet(devices=20, task=None)
        server.ends()
        fleet.ends()
        heard.catch_up()
        assert_all_rounds_done_once(trial)
        assert trial.run["model_sha256"] == model_sha256(mnist_models[max(mnist_models)])
        assert heard.models().keys() == {0, *mnist_models}
        for version, model in mnist_models.items():
            assert np.array_equal(heard.models()[version], model), version
    finally:
        trial.close()
        broker.kill()


def test_of_two_servers_on_one_channel_the_newer_has_the_devices_and_the_older_says_so(trial):
    older = trial.serve()
    trial.wire.wait_for(lambda topic, frame: topic == "all/call", "call")
    interrupted, trial.out = trial.out, trial.folder / "newer"
    newer = trial.serve()
    older.ends(3)
    assert "another server was started on this channel" in older.text
    assert json.loads((interrupted / "run.json").read_text())["status"] == "interrupted"
    fleet = trial.fleet()
    newer.ends()
    fleet.ends()
    assert_as_simulated(trial)
