"""replay: what cannot be replayed is refused."""

import pytest

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
