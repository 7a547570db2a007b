"""Trackers with their real libraries, offline: all files are in temporary folders, and nothing connects."""

import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotwise.runs import RunConfig

# stored_runs.py and tracked_toy.py; the processes that the tests start import the latter, too.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def config() -> RunConfig:
    """40 rounds, evaluated every 10 slots."""
    return RunConfig().with_options(devices=6, group_size=2, compute_slots=2, deadline=122, evaluate_every=10)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for stores. Libraries read these variables once, when they are imported."""
    place = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACKIO_DIR", str(place / "trackio"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        yield place


@pytest.fixture(scope="session")
def empty_mlflow_store(stores: Path) -> Path:
    """A database of MLflow without runs: to make its tables takes seconds, most of them to reach the disk."""
    from mlflow import MlflowClient
    from sqlalchemy import Engine, event

    def do_not_wait_for_the_disk(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", do_not_wait_for_the_disk)
    MlflowClient(f"sqlite:///{stores}/empty.db").search_experiments()
    event.remove(Engine, "connect", do_not_wait_for_the_disk)
    return stores / "empty.db"


@pytest.fixture
def mlflow_store(empty_mlflow_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of MLflow for one test."""
    shutil.copy(empty_mlflow_store, tmp_path / "mlflow.db")
    return tmp_path / "mlflow.db"


@pytest.fixture(autouse=True)
def offline(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep all libraries away from the network and the home directory, and let none leave a thread behind."""
    threads, home = set(threading.enumerate()), tmp_path / "home"
    for name in [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_EXP", "MLFLOW_RUN"))]:
        monkeypatch.delenv(name)
    (tmp_path / "wandb").mkdir()
    variables = {
        **{f"WANDB_{name}": tmp_path / "wandb" for name in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR")},
        **{"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"},
        **{"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db", "HOME": home},
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(socket.socket, "connect", _connect_to_this_machine)
    yield
    if sys.modules.get("wandb") is not None:
        sys.modules["wandb"].teardown()  # a session of wandb has a process that outlives its runs
    assert set(threading.enumerate()) <= threads
    assert not home.exists()


_connect = socket.socket.connect


def _connect_to_this_machine(self: socket.socket, address: Any) -> None:
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise AssertionError(f"a connection to {address}")
    _connect(self, address)


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A name that no other test uses: trackio has one store for all of them."""
    return "".join(letter if letter.isalnum() else "-" for letter in f"{request.node.name}-{tmp_path.name}")


@pytest.fixture
def library(request: pytest.FixtureRequest) -> str:
    """The library that a test is parametrised with, ready to be used."""
    if request.param == "mlflow":
        request.getfixturevalue("mlflow_store")
    return str(request.param)


@pytest.fixture
def slotwise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Call the command line; return exit code, stdout and stderr."""
    from slotwise.cli import main

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["slotwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return call
