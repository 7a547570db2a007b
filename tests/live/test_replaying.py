"""replay: the models of a live run again, and what cannot be replayed."""

import json

import memory_run
import numpy as np
import pytest
from memory_run import serve_in_memory
from tasks import Arithmetic

from slotwise.aggregation.norm_bound import NormBounded
from slotwise.base.errors import UserError
from slotwise.learning import Evaluation, Training
from slotwise.live import replay
from slotwise.live.server.server_config import clip_key
from slotwise.runs import RunConfig, RunFolder, SavedRun

CONFIG = RunConfig.from_options({"devices": 3, "group_size": 1, "compute_slots": 1, "deadline": 20})


class Pushing:
    """A task with which device 1 pushes in one direction, and the others draw updates of the same length."""

    def initial_model(self):
        return np.linspace(1, 2, 500, dtype=np.float32)

    def local_update(self, model, start):
        drawn = np.random.default_rng([start.device, start.training]).standard_normal(len(model))
        return (np.ones(len(model)) if start.device == 1 else drawn).astype(np.float32)

    def evaluate(self, model):
        return Evaluation(float(model.mean()), 0.0)


def test_a_bounded_run_replays_and_trains_to_the_same_bits(tmp_path, monkeypatch):
    # With some secrets of a run the bound clips an honest update as well.
    monkeypatch.setattr("secrets.randbits", lambda bits: 12345)
    config = RunConfig.from_options({"devices": 4, "group_size": 1, "compute_slots": 1, "deadline": 200})
    outcome = serve_in_memory(tmp_path / "run", config=config, task=Pushing(), clip_norm="auto")
    assert outcome.state.health.norms[1].clipped > 5
    assert outcome.state.health.norms[2].clipped == 0
    model = outcome.state.models[outcome.state.round]
    assert np.array_equal(replay(tmp_path / "run", Pushing()), model)
    # Training along a simulated timeline is the same code: benchmarks/bounded_fleets.py relies on it.
    saved = SavedRun.read(tmp_path / "run")
    rule = NormBounded(config.rule, "auto", clip_key(saved.description))
    with Training(config.simulate(), Pushing(), aggregation=rule) as training:
        for _ in training:
            pass
        assert np.array_equal(training.model, model)


def test_devices_are_not_told_the_key_of_the_bound(tmp_path):
    told = []

    async def listen(broker, clock):
        async with broker.connect() as channel:
            await channel.subscribe("#")
            async for arrival in channel.arrivals():
                told.append(getattr(arrival, "payload", b""))

    config = RunConfig.from_options({"devices": 3, "group_size": 1, "compute_slots": 1, "deadline": 20})
    serve_in_memory(tmp_path / "run", config=config, task=Pushing(), meanwhile=listen)
    key = clip_key(json.loads((tmp_path / "run" / "run.json").read_text()))
    assert key > 0
    assert told
    assert not any(str(key).encode() in payload for payload in told)


def test_a_simulated_run_is_refused(tmp_path):
    RunFolder.create(tmp_path / "run", CONFIG)
    with pytest.raises(UserError, match="a simulated run"):
        replay(tmp_path / "run")


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_run_whose_server_was_killed_at_its_end_is_refused(tmp_path, text):
    RunFolder.create(tmp_path / "run", CONFIG, live_run="x", live_options={"clip_norm": "auto"})
    with pytest.raises(UserError, match="no round is complete"):
        replay(tmp_path / "run")
    (tmp_path / "run" / "timeline.json").write_text(CONFIG.simulate().to_json())
    if text is not None:
        (tmp_path / "run" / "live.json").write_text(text)
    with pytest.raises(UserError, match=r"live\.json"):
        replay(tmp_path / "run")


def test_a_rule_sees_the_same_uplinks_in_a_live_run_and_in_its_replay(tmp_path):
    by_channel = "examples.own_aggregation.by_channel:by_channel"
    config = memory_run.CONFIG.with_options(aggregation=by_channel, radio_link="tasks:make_link")
    outcome = serve_in_memory(tmp_path / "run", config=config)
    found, state = replay(tmp_path / "run", Arithmetic()), outcome.state
    assert np.array_equal(found, state.models[state.round])
    plain = serve_in_memory(tmp_path / "mean", config=config.with_options(aggregation="mean")).state
    assert not np.array_equal(found, plain.models[plain.round])
