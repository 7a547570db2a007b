import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slotwise.batch.job import Run
from slotwise.batch.training import Job, JobsWatcher, train_jobs, unfinished
from slotwise.errors import UserError
from slotwise.learning import Task
from slotwise.observer import Observer
from slotwise.paper.catalogue import QUICK, all_runs, selected
from slotwise.paper.folder import Manifest, ReproductionFolder, Request
from slotwise.runs import RunConfig

MakeTask = Callable[[RunConfig], Task]
REQUEST = Request(400, 1, ("async-mnist",))


@pytest.fixture
def folder(tmp_path: Path) -> ReproductionFolder:
    return ReproductionFolder(tmp_path / "out")


@pytest.fixture
def runs(folder: ReproductionFolder) -> tuple[Run, ...]:
    manifest = folder.ask(True, {"mnist": REQUEST})
    return all_runs(manifest.experiments(), [0])


class StopAfter(JobsWatcher):
    """Asks for an early end after some rounds of the first job."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds
        self.seen: list[str] = []

    def started(self, job: Job) -> Observer:
        self.seen.append(job.run.name)
        outer = self

        class Counting(Observer):
            def round_done(self, round_number: int) -> None:
                outer.left -= 1

            def wants_stop(self) -> bool:
                return outer.left <= 0

        return Counting()

    def wants_stop(self) -> bool:
        return self.left <= 0


def test_all_runs_are_trained_once(
    folder: ReproductionFolder, runs: tuple[Run, ...], always: MakeTask, shrinking
) -> None:
    assert train_jobs(folder, unfinished(folder, runs), make_task=always) == ()
    assert [folder.run(run.name).status for run in runs] == ["finished"] * 4
    assert shrinking.updates == sum(len(run.parameters.simulate()) for run in runs)


def test_a_second_time_nothing_is_trained(
    folder: ReproductionFolder, runs: tuple[Run, ...], always: MakeTask
) -> None:
    train_jobs(folder, unfinished(folder, runs), make_task=always)
    assert unfinished(folder, runs) == ()


def test_a_run_that_was_stopped_goes_on_and_ends_the_same(
    folder: ReproductionFolder, runs: tuple[Run, ...], always: MakeTask, shrinking, tmp_path: Path
) -> None:
    watcher = StopAfter(100)
    train_jobs(folder, unfinished(folder, runs), watcher=watcher, make_task=always)
    assert watcher.seen == [runs[0].name]
    assert folder.run(runs[0].name).status == "interrupted"
    before = shrinking.updates
    train_jobs(folder, unfinished(folder, runs[:1]), make_task=always)
    assert shrinking.updates - before < len(runs[0].parameters.simulate())

    other = ReproductionFolder(tmp_path / "other")
    other.ask(True, {"mnist": REQUEST})
    train_jobs(other, unfinished(other, runs[:1]), make_task=always)
    histories = [f.run(runs[0].name).points() for f in (folder, other)]
    assert histories[0] == histories[1]


def test_a_run_that_diverges_or_fails_stops_no_other(
    folder: ReproductionFolder, runs: tuple[Run, ...], always: MakeTask, shrinking
) -> None:
    class Exploding:
        initial_model = shrinking.initial_model
        evaluate = shrinking.evaluate
        named_arrays = shrinking.named_arrays

        def local_update(self, model, device, training):
            return model * np.float32(np.inf)

    def make_task(parameters: RunConfig) -> Task:
        if parameters.channel.group_size == 1:
            return Exploding()
        if parameters.channel.group_size == 10:
            raise RuntimeError("no memory")
        return shrinking

    failures = train_jobs(folder, unfinished(folder, runs), make_task=make_task)
    assert [failure.reason for failure in failures] == ["diverged in round 0", "RuntimeError: no memory"]
    assert [folder.run(run.name).status for run in runs] == ["diverged", "running", "finished", "finished"]
    assert [job.run.name for job in unfinished(folder, runs)] == [runs[1].name]


def test_a_run_folder_with_other_parameters_is_refused(
    folder: ReproductionFolder, runs: tuple[Run, ...], always: MakeTask
) -> None:
    train_jobs(folder, unfinished(folder, runs[:1]), make_task=always)
    path = folder.run(runs[0].name).path / "run.json"
    document = json.loads(path.read_text())
    document["parameters"]["learning_rate"] = 0.5
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match="made with other parameters"):
        unfinished(folder, runs)


def test_a_folder_remembers_and_joins_what_was_asked_for(folder: ReproductionFolder) -> None:
    folder.ask(False, {"mnist": Request(None, 1, ("async-mnist",))})
    folder.ask(False, {"cifar10": Request(500, 2, ("idfl-cifar10",))})
    manifest = folder.ask(False, {"mnist": Request(None, 3, ("tradeoff",))})
    assert folder.manifest() == manifest
    assert manifest.requests["mnist"] == Request(None, 3, ("async-mnist", "tradeoff"))
    assert [e.name for e in manifest.experiments()] == ["async-mnist", "tradeoff", "idfl-cifar10"]
    assert {r.parameters.deadline for e in manifest.experiments()[2:] for r in e.runs(0)} == {500}
    assert (manifest.seeds("cifar10"), manifest.seeds("readings")) == (range(2), range(1))


def test_a_foreign_folder_is_refused(folder: ReproductionFolder) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="a new or empty folder, or one that slotwise reproduce made"):
        folder.ask(False, {"mnist": REQUEST})
    assert [path.name for path in folder.path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"format": 1}', '{"format": 1, "quick": 0, "studies": 3}']
)
def test_a_damaged_manifest_is_refused(folder: ReproductionFolder, text: str) -> None:
    folder.path.mkdir()
    folder.manifest_path.write_text(text)
    with pytest.raises(UserError, match=r"reproduction\.json: damaged"):
        folder.manifest()


def test_other_settings_are_refused(folder: ReproductionFolder) -> None:
    folder.ask(True, {"mnist": REQUEST})
    with pytest.raises(UserError, match="this one was made with --quick"):
        folder.ask(False, {"mnist": REQUEST})
    with pytest.raises(UserError, match="its mnist runs were made with --deadline 400"):
        folder.ask(True, {"mnist": Request(None, 1, ("async-mnist",))})


def test_two_at_once_are_refused(folder: ReproductionFolder) -> None:
    folder.ask(True, {"mnist": REQUEST})
    with folder.locked(), pytest.raises(UserError, match="another slotwise reproduce"), folder.locked():
        pass


def test_the_quick_look_has_no_cifar10_but_its_claims_still_know_what_to_ask_for() -> None:
    manifest = Manifest(True, {"mnist": REQUEST})
    assert selected(QUICK, ["mnist"])
    assert {e.name for e in manifest.study("cifar10")} == {
        "async-cifar10",
        "idfl-cifar10",
        "comparison-cifar10",
    }
