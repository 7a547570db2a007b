"""A trainer of a cluster, without the cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch.folder import SweepFolder
from slotwise.batch.grid import Sweep
from slotwise.batch.parcel import pack, unpack
from slotwise.batch.point import Order
from slotwise.batch.remote import News, Trainer
from slotwise.batch.training import Job
from slotwise.data import Dataset, load_mnist
from slotwise.runs import RunFolder

Read = Callable[[str], Sweep]


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def begun(trainer: Trainer, folder: SweepFolder, sweep: Sweep, mnist: Dataset) -> RunFolder:
    (run,) = sweep.runs
    own = RunFolder.create(folder.run(run.name).path, run.parameters)
    trainer.begin(Order.of(Job(run, 1.0), 1, 0.0), pack(own), mnist)
    return own


def all_news(trainer: Trainer) -> list[News]:
    news = [trainer.news()]
    while not news[-1].over:
        news.append(trainer.news())
    return news


def test_a_point_comes_back_as_if_it_were_trained_here(
    read: Read, train_all, outcome, tmp_path: Path, mnist: Dataset
) -> None:
    sweep, here, there = read(""), SweepFolder(tmp_path / "here"), SweepFolder(tmp_path / "there")
    train_all(here, sweep)
    trainer = Trainer()
    own = begun(trainer, there, sweep, mnist)
    for news in all_news(trainer):
        unpack(news.files, own)
    assert outcome(there) == outcome(here)


def test_one_that_is_asked_to_stop_sends_its_checkpoint(read: Read, tmp_path: Path, mnist: Dataset) -> None:
    trainer = Trainer()
    own = begun(trainer, SweepFolder(tmp_path / "out"), read("deadline = 100_000"), mnist)
    first = trainer.news()
    trainer.stop()
    for news in [first, *all_news(trainer)]:
        unpack(news.files, own)
    assert own.status == "interrupted"
    assert own.checkpoints.newest() is not None


def test_a_failure_is_told(read: Read, tmp_path: Path, mnist: Dataset) -> None:
    trainer = Trainer()
    begun(trainer, SweepFolder(tmp_path / "out"), read("samples-per-device = 50_000"), mnist)
    assert "DataError" in (all_news(trainer)[-1].reason or "")


def test_the_folder_on_the_node_is_gone_afterwards(
    read: Read, tmp_path: Path, mnist: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    trainer = Trainer()
    begun(trainer, SweepFolder(tmp_path / "out"), read(""), mnist)
    assert list((tmp_path / "scratch").iterdir())
    all_news(trainer)
    assert list((tmp_path / "scratch").iterdir()) == []
