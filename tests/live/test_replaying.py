"""replay: what cannot be replayed is refused."""

import memory_run
import numpy as np
import pytest
from memory_run import serve_in_memory
from tasks import Arithmetic

from slotwise.base.errors import UserError
from slotwise.live import replay
from slotwise.runs import RunConfig, RunFolder

CONFIG = RunConfig.from_options({"devices": 3, "group_size": 1, "compute_slots": 1, "deadline": 20})


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
