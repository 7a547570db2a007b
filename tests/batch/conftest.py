"""Grids of points that train in a moment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch.folder import SweepFolder
from slotwise.batch.grid import Sweep, read_sweep
from slotwise.runs import RunFolder, execute

TINY = """
devices = 4
group-size = 2
compute-slots = 4
deadline = 60
samples-per-device = 20
local-steps = 1
batch-size = 8
channels = [2]
hidden = []
evaluate-every = 30
"""

# Points of about a second that costs next to nothing: long enough to be killed in.
LONG = "deadline = 4000\nevaluate-every = 2000\nlearning-rate = [0.01, 0.02, 0.03, 0.04]"

Read = Callable[[str], Sweep]
Outcomes = dict[str, tuple[str, bytes]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a grid of tiny points; lines of ``text`` come first and win."""

    def read_text(text: str) -> Sweep:
        path = tmp_path / "grid.toml"
        path.write_text(with_tiny(text))
        return read_sweep(path)

    return read_text


def with_tiny(text: str) -> str:
    """Lines of ``text`` and, for what it does not say, those of tiny points."""
    named = {line.split("=")[0].strip() for line in text.splitlines()}
    rest = [line for line in TINY.splitlines() if line.split("=")[0].strip() not in named]
    return "\n".join([*rest, text]) + "\n"


@pytest.fixture
def train_all() -> Callable[[SweepFolder, Sweep], None]:
    """Trains one point after another in this process: what every other way must come to."""

    def train(folder: SweepFolder, sweep: Sweep) -> None:
        for run in sweep.runs:
            execute(RunFolder.create(folder.run(run.name).path, run.parameters), run.parameters)

    return train


@pytest.fixture(scope="session")
def long_points(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcomes]:
    """A grid of points that are long enough to be killed in, and what they come to without that."""
    return trained_here(tmp_path_factory.mktemp("long") / "grid.toml", LONG)


def trained_here(path: Path, text: str) -> tuple[Path, Outcomes]:
    """Write down a grid, and train its points in this process."""
    path.write_text(with_tiny(text))
    runs = read_sweep(path).runs
    folders = {run.name: RunFolder.create(path.parent / run.name, run.parameters) for run in runs}
    for run in runs:
        execute(folders[run.name], run.parameters)
    return path, {name: _finished(folder) for name, folder in folders.items()}


@pytest.fixture
def outcome() -> Callable[[SweepFolder], Outcomes]:
    """Gives the model and the curve of every run, all of which must be finished."""
    return lambda folder: {path.name: _finished(RunFolder.open(path)) for path in folder.runs.iterdir()}


def _finished(run: RunFolder) -> tuple[str, bytes]:
    assert run.status == "finished"
    return run.description()["model_sha256"], (run.path / "history.csv").read_bytes()
