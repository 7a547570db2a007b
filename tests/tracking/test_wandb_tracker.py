"""Properties of wandb that the other libraries do not have."""

from pathlib import Path

import pytest
from stored_runs import read_stored
from tracked_toy import Toy

from slotwise.base.errors import UserError
from slotwise.runs import RunConfig, run
from slotwise.tracking.trackers import WandbTracker


@pytest.mark.parametrize(("project", "expected"), [(None, "theirs/named/"), ("mine", "mine/named/")])
def test_variables_of_wandb_are_respected_and_arguments_override_them(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: str | None, expected: str
) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    monkeypatch.setenv("WANDB_NAME", "named")
    run(config, tmp_path / "run", task=Toy(), observer=WandbTracker(project=project))
    (stored,) = read_stored("wandb", tmp_path, "")
    assert stored.id.startswith(expected)


def test_a_missing_login_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    with pytest.raises(UserError, match="WANDB_MODE=offline"):
        WandbTracker()


def test_a_disabled_wandb_records_nothing(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert run(config, tmp_path / "run", task=Toy(), observer=WandbTracker()).status == "finished"
    assert read_stored("wandb", tmp_path, "") == []
