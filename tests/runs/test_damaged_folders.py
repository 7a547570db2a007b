"""Run folders that were damaged or left by a process that was killed, and the lock of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import held
from slotwise.learning import Task
from slotwise.runs import Observer, RunConfig, RunFolder, resume, run, run_folder


class StopAtOnce(Observer):
    def wants_stop(self) -> bool:
        return True


@pytest.fixture
def interrupted(tmp_path: Path, parameters: RunConfig, toy: Task) -> RunFolder:
    run(parameters, tmp_path / "run", task=toy, checkpoint_every=0, observer=StopAtOnce())
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize("call", ["resume", "overwrite"])
def test_a_folder_with_the_name_of_a_checkpoint_is_refused(
    interrupted: RunFolder, parameters: RunConfig, toy: Task, call: str
) -> None:
    calls: dict[str, Callable[[], object]] = {
        "resume": lambda: resume(interrupted, task=toy),
        "overwrite": lambda: run(parameters, interrupted.path, overwrite=True, task=toy),
    }
    path = interrupted.checkpoints.folder / "round-000000020.checkpoint"
    path.mkdir()
    before = {file: file.read_bytes() for file in interrupted.path.rglob("*") if file.is_file()}
    with pytest.raises(UserError, match=r"round-000000020\.checkpoint: must be a file"):
        calls[call]()
    assert {file: file.read_bytes() for file in interrupted.path.rglob("*") if file.is_file()} == before


def test_what_a_killed_process_was_writing_is_removed(interrupted: RunFolder, toy: Task) -> None:
    for folder in (interrupted.path, interrupted.checkpoints.folder):
        (folder / ".0123456789abcdef.tmp").write_text("{")
    resume(interrupted, task=toy)
    assert list(interrupted.path.rglob("*.tmp")) == []


def test_a_run_is_locked_from_its_creation_to_its_end(
    interrupted: RunFolder, parameters: RunConfig, toy: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    @contextmanager
    def recorded(folder: Path, otherwise: str) -> Iterator[None]:
        with held(folder, otherwise):
            events.append("lock")
            yield
        events.append("release")

    def write(self: RunFolder, *arguments: Any, **more: Any) -> None:
        events.append("write")
        write_description(self, *arguments, **more)

    write_description = RunFolder.write_description
    monkeypatch.setattr(run_folder, "held", recorded)
    monkeypatch.setattr(RunFolder, "write_description", write)
    run(parameters, interrupted.path, overwrite=True, task=toy)
    # From the first run.json to the last there is one lock.
    first, last = events.index("write"), len(events) - 1 - events[::-1].index("write")
    assert events[first - 1 : last + 2] == ["lock", "write", "write", "release"]


def test_a_run_that_was_made_meanwhile_is_not_replaced(tmp_path: Path, parameters: RunConfig) -> None:
    made = RunFolder.create(tmp_path / "run", parameters)
    other = RunConfig().with_options(seed=5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunFolder, "check_new", classmethod(lambda cls, path, **_: cls(path)))
        with pytest.raises(InputError, match="contains a run"):
            RunFolder.create(made.path, other)
    assert made.parameters() == parameters
