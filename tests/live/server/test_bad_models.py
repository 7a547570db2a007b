"""Poisoned models, long updates and evaluations that are not finite."""

import json

import numpy as np
import pytest
from memory_run import CONFIG, Logging, serve_in_memory
from tasks import Arithmetic

from slotwise.learning import Evaluation, train
from slotwise.live import replay
from slotwise.live.server.server_config import LivePlan
from slotwise.runs import RunFolder
from slotwise.runs.run_folder import model_sha256

ATTACKER = 3
HONEST = {1, 2, 4, 5, 6}


class Poisoned(Arithmetic):
    """Device 3 sends one enormous update; on the model that it makes nobody can train."""

    def __init__(self, size=-1e20, training=2):
        super().__init__()
        self._poison, self._training = size, training

    def local_update(self, model, start):
        if np.abs(model).max() > 1e10 and start.device != ATTACKER:
            return np.full_like(model, np.nan)
        if start.device == ATTACKER and start.training == self._training:
            return np.full_like(model, self._poison)
        return super().local_update(np.clip(model, -2, 2), start)

    def evaluate(self, model):
        return Evaluation(float(model.sum()) if np.abs(model).max() < 1e10 else np.nan, 0.5)


def rarely_evaluated(config):
    """Only the first and the last model: devices find out first."""
    return config.with_options(evaluate_every=10_000)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize("evaluated", [True, False], ids=["found by the server", "found by devices"])
def test_a_poisoned_model_is_rolled_back_and_its_victims_are_not_blamed(tmp_path, schedule, evaluated):
    config = CONFIG.with_options(schedule=schedule)
    config = config.with_options(evaluate_every=1) if evaluated else rarely_evaluated(config)
    log = Logging()
    outcome = serve_in_memory(
        tmp_path / "run", config=config, task=Poisoned(), observer=log, clip_norm="off", cool_down=1e5
    )
    assert (outcome.status, outcome.state.round) == ("finished", LivePlan.of(config).timeline.rounds)
    assert outcome.state.penalties.excluded == {ATTACKER}
    assert outcome.state.presence.connected == HONEST
    assert not any(outcome.state.penalties.points.get(device) for device in HONEST)
    assert np.abs(outcome.state.models[outcome.state.round]).max() < 10
    (rolled_back,) = log.named("rolled_back")
    assert rolled_back["suspects"] == str(ATTACKER)
    assert [event["device"] for event in log.named("excluded")] == [ATTACKER]
    assert (
        model_sha256(replay(tmp_path / "run", Poisoned()))
        == RunFolder(tmp_path / "run").description()["model_sha256"]
    )


def test_an_overflowing_sum_is_not_applied(tmp_path):
    outcome = serve_in_memory(
        tmp_path / "run",
        config=rarely_evaluated(CONFIG).with_options(group_size=1),
        task=_Large(),
        clip_norm="off",
        cool_down=1e5,
    )
    assert outcome.status == "finished"
    assert outcome.state.penalties.excluded == {ATTACKER}
    assert np.isfinite(outcome.state.models[outcome.state.round]).all()
    assert model_sha256(replay(tmp_path / "run", _Large())) == model_sha256(
        outcome.state.models[outcome.state.round]
    )


class _Large(Arithmetic):
    """A model near the largest number, which one update of device 3 makes infinite."""

    def initial_model(self):
        return np.full(4, 3e38, dtype=np.float32)

    def local_update(self, model, start):
        size = -3e38 if (start.device, start.training) == (ATTACKER, 2) else 1.0 + start.device
        return np.full_like(model, size)

    def evaluate(self, model):
        return Evaluation(float(model[0]), 0.5)


def test_by_default_a_long_update_is_clipped_and_nobody_has_to_roll_back(tmp_path):
    log = Logging()
    outcome = serve_in_memory(tmp_path / "run", task=Poisoned(), observer=log)
    assert outcome.status == "finished"
    assert not outcome.state.penalties.points
    (clipped,) = log.named("clipped")
    assert clipped["device"] == ATTACKER
    assert clipped["norm"] > 1e20
    document = json.loads((tmp_path / "run/live.json").read_text())
    # Its later updates count less too, until its mean is like that of others.
    counts = {device: norms["clipped"] for device, norms in document["norms"].items()}
    assert 1 <= counts.pop(str(ATTACKER)) <= 5
    assert not any(counts.values())
    assert log.status.devices[ATTACKER - 1].clipped == log.status.clipped >= 1
    assert log.status.devices[ATTACKER - 1].largest_norm > 1e20
    assert np.array_equal(replay(tmp_path / "run", Poisoned()), outcome.state.models[outcome.state.round])


@pytest.mark.parametrize(
    "rule",
    [
        {"aggregation": "trimmed-mean", "trim": 0.25},
        {"aggregation": "median"},
        {"aggregation": "krum", "byzantine": 1},
        {"aggregation": "multi-krum", "byzantine": 1},
    ],
    ids=lambda rule: rule["aggregation"],
)
def test_robust_rules_give_the_simulated_model(tmp_path, rule):
    config = CONFIG.with_options(group_size=5, **rule)
    outcome = serve_in_memory(tmp_path / "run", config=config)
    history = train(config.simulate(), Arithmetic(), aggregation=config.rule)
    assert outcome.status == "finished"
    assert np.array_equal(outcome.state.models[outcome.state.round], history.model)


class NeverFinite(Arithmetic):
    """Its loss is not finite from some model on, whatever is done about it."""

    def __init__(self, first):
        super().__init__()
        self._first = first

    def evaluate(self, model):
        return Evaluation(np.nan if model[0] < self._first else 1.0, np.nan)


@pytest.mark.parametrize("first", [10.0, 0.99], ids=["from the start", "later"])
def test_a_loss_that_is_not_finite_is_diverged_as_in_a_simulation(tmp_path, first):
    config = CONFIG.with_options(evaluate_every=1)
    outcome = serve_in_memory(tmp_path / "run", config=config, task=NeverFinite(first))
    assert outcome.status == "diverged"
    text = (tmp_path / "run/run.json").read_text()
    assert json.loads(text)["status"] == "diverged"
    assert "NaN" not in text
    assert all(np.isfinite(point.loss) for point in RunFolder(tmp_path / "run").points())


def test_a_last_model_that_is_bad_is_diverged_too(tmp_path):
    task = NeverFinite(0.97)
    outcome = serve_in_memory(tmp_path / "run", config=rarely_evaluated(CONFIG), task=task)
    assert (outcome.status, outcome.state.round) == ("diverged", LivePlan.of(CONFIG).timeline.rounds)


def test_one_broken_device_is_excluded_and_the_model_is_not_doubted(tmp_path):
    class OneBroken(Arithmetic):
        def local_update(self, model, start):
            update = super().local_update(model, start)
            return update * np.float32(np.nan) if start.device == 5 else update

    log = Logging()
    outcome = serve_in_memory(tmp_path / "run", task=OneBroken(), observer=log)
    assert outcome.status == "finished"
    assert outcome.state.penalties.excluded == {5}
    assert not log.named("rolled_back")
    assert not any(device == 5 for _, device, *_ in outcome.state.record.uplinks)
