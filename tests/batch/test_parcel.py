from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch.grid import Sweep
from slotwise.batch.parcel import Outbox, pack, unpack
from slotwise.errors import UserError
from slotwise.observer import Observer
from slotwise.runs import RunConfig, RunFolder, execute

Read = Callable[[str], Sweep]


class Until(Observer):
    """Stops after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round_done(self, round_number: int) -> None:
        self.left -= 1

    def wants_stop(self) -> bool:
        return self.left <= 0


@pytest.fixture
def parameters(read: Read) -> RunConfig:
    return read("").points[0].run.parameters


@pytest.fixture
def broken(tmp_path: Path, parameters: RunConfig) -> RunFolder:
    """A run that was stopped after three rounds."""
    folder = RunFolder.create(tmp_path / "broken", parameters)
    execute(folder, parameters, observer=Until(3))
    return folder


def test_a_run_goes_on_elsewhere_and_comes_back_the_same(
    broken: RunFolder, parameters: RunConfig, tmp_path: Path
) -> None:
    away = RunFolder(tmp_path / "away")
    unpack(pack(broken), away)
    history, _ = away.checkpoints.load()
    assert history is not None
    assert history.rounds == 3
    outbox = Outbox(away)
    execute(away, away.parameters(), resume=history)
    unpack(outbox.changed(over=True), broken)
    whole = RunFolder.create(tmp_path / "whole", parameters)
    execute(whole, parameters)
    assert broken.description()["model_sha256"] == whole.description()["model_sha256"]
    for name in ("history.csv", "model.npz"):
        assert (broken.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert broken.status == "finished"


def test_only_what_is_new_is_sent(broken: RunFolder, parameters: RunConfig) -> None:
    outbox = Outbox(broken)
    assert outbox.changed(over=False) == {}
    history, _ = broken.checkpoints.load()
    execute(broken, parameters, resume=history, observer=Until(2))
    assert set(outbox.changed(over=False)) == {"checkpoint", "history.csv"}
    assert outbox.changed(over=False) == {}
    assert set(outbox.changed(over=True)) == {"history.csv", "model.npz", "run.json"}


def test_a_checkpoint_that_is_damaged_on_the_way_is_refused(broken: RunFolder, tmp_path: Path) -> None:
    parcel = pack(broken)
    parcel["checkpoint"] = parcel["checkpoint"][:-1]
    with pytest.raises(UserError, match="a checkpoint arrived damaged"):
        unpack(parcel, RunFolder(tmp_path / "away"))
