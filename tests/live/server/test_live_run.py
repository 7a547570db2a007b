"""run_live: a live run from its configuration to its folder, in memory and in virtual time."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tasks
from memory_run import devices_on, half_a_second, live_run
from tasks import Arithmetic
from virtual_time import run_virtual

from live import TOPICS
from slotwise.base.errors import InputError, UserError
from slotwise.learning import train
from slotwise.learning.course import evaluation_rounds
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.live_run import AFTER_LAST_ROUND
from slotwise.live.server.round_log import FILE
from slotwise.live.server.server_config import LivePlan, ServerConfig
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker
from slotwise.runs import RunConfig
from slotwise.runs.run_folder import model_sha256

CONFIG = RunConfig.from_options(
    {"devices": 3, "group_size": 1, "compute_slots": 1, "deadline": 20, "task": "tasks:make"}
)
ROUNDS, DEVICES = CONFIG.simulate().rounds, CONFIG.channel.devices
SERVER = ServerConfig(name=TOPICS.name)


class StopsAfter(LiveObserver):
    """Stops when a number of rounds is done."""

    def __init__(self, rounds):
        self._rounds, self._stop = rounds, False

    def round_done(self, round_number):
        self._stop = self._stop or round_number + 1 == self._rounds

    def wants_stop(self):
        return self._stop


def served(folder, observer=None, task=None, config=CONFIG):
    """Return the outcome, and whether the devices have been told that the run is over."""

    async def scenario(clock):
        broker = MemoryBroker()
        async with devices_on(broker, half_a_second(clock), DEVICES) as devices:
            async with broker.connect() as channel:
                how = {"server": SERVER, "observer": observer, "clock": clock}
                outcome = await live_run(folder, channel, config, task, **how)
            await clock.sleep(2.0)
            return outcome, all(device.done() for device in devices)

    return run_virtual(scenario)


@pytest.fixture
def folder(tmp_path):
    return new_live_folder(tmp_path / "run", CONFIG, SERVER)


@pytest.mark.parametrize(
    "own",
    [
        {"schedule": "tasks:make_policy"},
        {"selection": "tasks:latest_first"},
        {"schedule": "sync", "participation": "tasks:latest_first"},
        {"aggregation": "tasks:half_step"},
        {"aggregation": "fedasync", "schedule": "async"},
        {"radio_link": "rate-adaptive", "radio_bits": 500_000, "radio_broadcast_bits": 800_000},
        {"radio_link": "tasks:make_link"},
    ],
    ids=["policy", "selection", "participation", "aggregation rule", "fedasync", "radio", "link"],
)
def test_policies_selections_and_rules_of_the_user_give_the_simulated_model(tmp_path, own):
    config = CONFIG.with_options(compute_slots=3, deadline=60, **own)
    outcome, _ = served(new_live_folder(tmp_path / "run", config, SERVER), config=config)
    history = train(config.simulate(), Arithmetic(), aggregation=config.rule)
    assert outcome.status == "finished"
    assert outcome.comparison.first_difference is None
    assert np.array_equal(outcome.state.models[outcome.state.round], history.model)


def test_devices_are_told_when_the_run_is_over(folder):
    outcome, over = served(folder)
    assert (outcome.status, outcome.trouble, over) == ("finished", None, True)


def test_devices_are_told_even_if_the_run_was_to_stop_in_its_last_round(folder):
    outcome, over = served(folder, StopsAfter(ROUNDS))
    assert (outcome.status, over) == ("finished", True)


def test_devices_wait_when_the_run_was_stopped_before_its_last_round(folder):
    outcome, over = served(folder, StopsAfter(3))
    assert (outcome.status, outcome.state.round, over) == ("interrupted", 3, False)


class EndlessEvaluation(Arithmetic):
    """A task whose evaluation takes forever."""

    endless = True


def test_a_stopped_run_does_not_wait_for_evaluations_which_are_made_up_for_when_it_is_resumed(folder):
    outcome, _ = served(folder, StopsAfter(3), EndlessEvaluation())
    assert (outcome.status, outcome.state.points) == ("interrupted", [])
    outcome, _ = served(folder)
    assert outcome.status == "finished"
    assert [point.round for point in outcome.state.points] == sorted(
        evaluation_rounds(CONFIG.simulate(), CONFIG.slots_between_evaluations)
    )


class CannotBeEvaluated(Arithmetic):
    """A task whose evaluation fails while the run is on."""

    def evaluate(self, model):
        raise ZeroDivisionError("in the user's task")


def test_an_evaluation_that_fails_ends_the_run_with_its_error(folder):
    with pytest.raises(ZeroDivisionError):
        served(folder, task=CannotBeEvaluated())


class Noting(LiveObserver):
    """Keeps what is reported."""

    def __init__(self):
        self.notices, self.present, self.rejected = [], [], []

    def notice(self, message):
        self.notices.append(message)

    def devices_connected(self, present, expected):
        self.present.append((present, expected))

    def message_rejected(self, topic, reason):
        self.rejected.append(reason)


def test_devices_that_are_missing_at_the_start_are_logged_once(folder):
    class Log(Noting):
        def logged(self, event):
            if event.event == "waiting_for_devices":
                waits.append(event.fields)

    waits = []
    served(folder, Log())
    assert [(wait["connected"] < wait["devices"], wait["devices"]) for wait in waits] == [(True, DEVICES)]


def test_damaged_checkpoints_are_reported_before_the_run_begins_anew(folder):
    served(folder, StopsAfter(3))
    checkpoints = sorted((folder.path / "live").iterdir())
    for path in checkpoints:
        path.write_bytes(b"x")
    observer = Noting()
    outcome, _ = served(folder, observer)
    assert outcome.status == "finished"
    *damaged, start, _ = observer.notices
    assert sorted(line.partition(":")[0] for line in damaged) == [str(path) for path in checkpoints]
    assert "the start" in start


@pytest.mark.parametrize("data", [b"", b"x"])
def test_without_the_log_of_its_rounds_a_run_begins_anew(folder, data):
    served(folder, StopsAfter(3))
    (folder.path / FILE).write_bytes(data)
    observer = Noting()
    outcome, _ = served(folder, observer)
    assert "the start" in observer.notices[-2]
    assert (outcome.status, outcome.comparison.first_difference) == ("finished", None)
    assert len(list(outcome.state.log)) == ROUNDS


def resumed_before_its_devices(folder, server, ready):
    """Resume without devices, and start them when ``ready(observer)`` is true."""
    observer = Noting()

    async def scenario(clock):
        broker = MemoryBroker()
        async with broker.connect() as channel:
            running = asyncio.create_task(
                live_run(folder, channel, CONFIG, server=server, observer=observer, clock=clock)
            )
            while not ready(observer):
                await clock.sleep(1.0)
            async with devices_on(broker, half_a_second(clock), DEVICES):
                return await running, clock.now()

    return *run_virtual(scenario), observer


def test_a_resumed_run_waits_for_the_devices_that_it_had(folder):
    served(folder, StopsAfter(3))
    outcome, _, observer = resumed_before_its_devices(folder, SERVER, lambda observer: observer.present)
    assert outcome.status == "finished"
    assert outcome.comparison.first_difference is None
    assert observer.present[0] == (0, CONFIG.channel.devices)


def test_a_resumed_run_without_devices_waits_no_longer_than_it_is_told_to(folder):
    served(folder, StopsAfter(3))
    server = replace(SERVER, timeout=60.0, wait=500.0)
    outcome, seconds, _ = resumed_before_its_devices(
        folder, server, lambda observer: any(reason.startswith("missing") for reason in observer.rejected)
    )
    assert outcome.status == "finished"
    assert 560 < seconds < 700


def test_a_run_starts_without_the_devices_that_have_not_come(folder):
    observer = Noting()

    async def scenario(clock):
        broker = MemoryBroker()
        async with devices_on(broker, half_a_second(clock), 2), broker.connect() as channel:
            return await live_run(folder, channel, CONFIG, server=SERVER, observer=observer, clock=clock)

    assert run_virtual(scenario).status == "finished"
    assert observer.notices == ["starting without device 3", AFTER_LAST_ROUND]


STATEFUL = ["fedavgm", "fedadam", "tasks:shorter_and_shorter"]


def stateful(rule):
    return CONFIG.with_options(compute_slots=3, deadline=60, schedule="async", aggregation=rule)


def killed(folder, config, rounds):
    """Serve until some rounds are done, then die without saving anything more."""

    class Counting(LiveObserver):
        reached = asyncio.Event()

        def round_done(self, round_number):
            if round_number + 1 == rounds:
                self.reached.set()

    async def scenario(clock):
        broker, observer = MemoryBroker(), Counting()
        server = replace(SERVER, checkpoint_every=0)
        async with devices_on(broker, half_a_second(clock), DEVICES), broker.connect() as channel:
            running = asyncio.create_task(
                live_run(folder, channel, config, server=server, observer=observer, clock=clock)
            )
            await observer.reached.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(scenario)


@pytest.mark.parametrize("rule", STATEFUL)
def test_a_server_that_was_killed_resumes_with_the_state_of_its_rule(tmp_path, rule):
    config = stateful(rule)
    folder = new_live_folder(tmp_path / "run", config, SERVER)
    killed(folder, config, 6)
    assert folder.status == "running"
    outcome, _ = served(folder, StopsAfter(9), config=config)
    assert outcome.status == "interrupted"
    assert 6 <= outcome.state.round < config.simulate().rounds
    outcome, _ = served(folder, config=config)
    assert outcome.status == "finished"
    history = train(config.simulate(), Arithmetic(), aggregation=config.rule)
    assert folder.description()["model_sha256"] == model_sha256(history.model)
    for name, array in history.rule_state.items():
        assert np.array_equal(outcome.state.rule_state[name], array)


@pytest.mark.parametrize("rounds", [0, 4])
def test_a_rule_that_fails_leaves_a_run_that_is_resumed_when_it_is_corrected(tmp_path, monkeypatch, rounds):
    config = stateful("tasks:shorter_and_shorter")
    folder = new_live_folder(tmp_path / "run", config, SERVER)

    original = tasks.shorter_and_shorter

    def failing(model, contributions, state):
        if int(state.get("calls", np.zeros(1))[0]) == rounds:
            raise RuntimeError("in the user's rule")
        return original(model, contributions, state)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "shorter_and_shorter", failing)
        with pytest.raises(RuntimeError, match="in the user's rule"):
            served(folder, config=config)
    description = folder.description()
    assert (description["status"], description["rounds"]) == ("interrupted", rounds)
    assert "RuntimeError: in the user's rule" in description["error"]
    served(folder, config=config)
    history = train(config.simulate(), Arithmetic(), aggregation=config.rule)
    assert folder.description()["model_sha256"] == model_sha256(history.model)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"attack": "sign-flip", "attack_share": 0.4}, "attack"),
        ({"jitter": 0.5}, "jitter"),
        ({"uplink_loss": 0.1}, "uplink_loss"),
        ({"absences": ((1, 2, 5),)}, "absences"),
        ({"windows": ((1, 2, 5),)}, "windows"),
        ({"radio_link": "tasks:make_link", "radio_link_options": {"lost": True}}, "radio_link"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_what_only_a_simulation_has_is_refused(options, parameter):
    with pytest.raises(InputError) as raised:
        LivePlan.of(CONFIG.with_options(**options))
    assert raised.value.parameter == parameter


@pytest.mark.parametrize(
    "options",
    [
        {"mean_present": 5.0, "mean_away": 2.0},
        {"window_period": 9, "window_length": 3},
        {"frame_slots": 9},
        {"battery_joules": 5.0, "computing_joules": 0.1, "sending_joules": 0.1, "harvest_joules": 0.1},
    ],
    ids=["absences", "windows", "owned slots", "batteries"],
)
def test_faults_that_are_drawn_or_made_from_other_options_are_refused(options):
    with pytest.raises(UserError, match="faults are real"):
        LivePlan.of(CONFIG.with_options(**options))
