"""The crew of a cluster without a cluster: Ray is played, its trainers are real."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotwise.batch import cluster, remote
from slotwise.batch.cluster import RayCrew
from slotwise.batch.crew import Progress, SweepWatcher, conduct
from slotwise.batch.folder import SweepFolder
from slotwise.batch.grid import Sweep
from slotwise.batch.remote import Trainer
from slotwise.batch.training import Failure, Job, unfinished
from slotwise.errors import UserError
from slotwise.runs import RunFolder

Read = Callable[[str], Sweep]
TWO = "learning-rate = [0.01, 0.02]"
LONG = "deadline = 4000\nevaluate-every = 2000"  # long enough for a checkpoint to come back
GONE = "the Ray cluster at head:1 is gone; what has come back is kept"


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class Actor:
    """A trainer; ``fate`` may put an error in the place of an answer."""

    def __init__(self, number: int, trainer: Trainer, fate: Callable[[int, str], Exception | None]) -> None:
        self._number, self._trainer, self._fate = number, trainer, fate
        self._at_work = False

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *values: self._called(name, values))

    def _called(self, name: str, values: tuple[object, ...]) -> Callable[[], object]:
        def answer() -> object:
            if error := self._fate(self._number, name):
                raise error
            result = getattr(self._trainer, name)(*values)
            self._at_work = name == "begin" or (name == "news" and not result.over)
            return result

        return answer

    def end(self) -> None:
        """Its thread is a thread of the tests."""
        self._trainer.stop()
        while self._at_work:
            self._at_work = not self._trainer.news().over


class PlayedRay:
    """As much of Ray as the crew knows."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, fate: Callable[[int, str], Exception | None] = lambda number, name: None) -> None:
        self._fate = fate
        self.made = self.shut = 0
        self.puts: list[object] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def put(self, value: object) -> object:
        self.puts.append(value)
        return value

    def remote(self, **options: object) -> Callable[[type[Trainer]], SimpleNamespace]:
        def make(kind: type[Trainer]) -> Actor:
            self.made += 1
            return Actor(self.made, kind(), self._fate)

        return lambda kind: SimpleNamespace(remote=lambda: make(kind))

    def wait(self, calls: list[object], timeout: float) -> tuple[list[object], list[object]]:
        return calls, []

    def get(self, call: Callable[[], object]) -> object:
        return call()

    def kill(self, actor: Actor) -> None:
        actor.end()

    def shutdown(self) -> None:
        self.shut += 1


class Cluster:
    """A connection to it."""

    head = "head:1"

    def __init__(self, ray: PlayedRay, there: bool = True) -> None:
        self.ray, self.there = ray, there

    def answers(self) -> bool:
        return self.there


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SweepFolder]:
    found = SweepFolder(tmp_path / "out")
    with found.locked():
        yield found


def trained(
    ray: PlayedRay, folder: SweepFolder, sweep: Sweep, watcher: SweepWatcher | None = None
) -> tuple[Failure, ...]:
    """What failed of a sweep on one trainer after another."""
    crew = RayCrew(Cluster(ray), folder, len(sweep.runs), 1, 0.05)  # type: ignore[arg-type]
    return conduct(unfinished(folder, sweep.runs), crew, watcher or SweepWatcher())


def statuses(folder: SweepFolder) -> list[str]:
    return [RunFolder(path).status for path in sorted(folder.runs.iterdir())]


def test_points_come_back_as_if_they_were_trained_here_and_data_is_sent_once(
    read: Read, folder: SweepFolder, train_all, outcome, tmp_path: Path
) -> None:
    sweep, here, ray = read(TWO), SweepFolder(tmp_path / "here"), PlayedRay()
    train_all(here, sweep)
    assert trained(ray, folder, sweep) == ()
    assert outcome(folder) == outcome(here)
    assert (len(ray.puts), ray.shut) == (1, 1)


def test_trainers_that_are_lost_before_they_greet_end_a_sweep_at_last(
    read: Read, folder: SweepFolder
) -> None:
    ray = PlayedRay(lambda number, name: RayError("its node\nhas no memory"))
    with pytest.raises(UserError, match=r"^the cluster cannot start slotwise: has no memory$"):
        trained(ray, folder, read(TWO))
    assert ray.made == cluster.FALSE_STARTS


def test_one_that_greets_makes_good_for_those_that_did_not(read: Read, folder: SweepFolder) -> None:
    def fate(number: int, name: str) -> Exception | None:
        lost = (name == "hello" and number in (1, 2, 4, 5)) or (name == "news" and number == 3)
        return RayError("lost") if lost else None

    ray = PlayedRay(fate)
    assert trained(ray, folder, read("")) == ()
    assert (ray.made, statuses(folder)) == (6, ["finished"])


class Notes(SweepWatcher):
    """How far a point was when it was begun, each time."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.reasons: list[str] = []
        self._new = True

    def started(self, job: Job) -> None:
        self._new = True

    def progressed(self, progress: Progress) -> None:
        if self._new:
            self.first.append(progress.done)
        self._new = False

    def lost(self, job: Job, reason: str) -> None:
        self.reasons.append(reason)


def test_a_point_whose_node_is_lost_goes_on_from_what_has_come_back(
    read: Read, folder: SweepFolder, train_all, outcome, tmp_path: Path
) -> None:
    sweep, here, notes = read(LONG), SweepFolder(tmp_path / "here"), Notes()
    train_all(here, sweep)

    def fate(number: int, name: str) -> Exception | None:
        come_back = list(folder.runs.glob("*/checkpoints/*.checkpoint"))
        return RayError("lost") if number == 1 and name == "news" and come_back else None

    assert trained(PlayedRay(fate), folder, sweep, notes) == ()
    assert notes.reasons == ["its node or its process was lost"]
    assert notes.first[-1] > 0
    assert outcome(folder) == outcome(here)


def test_a_node_with_another_slotwise_is_named(
    read: Read, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "version", lambda name: "0.0.1")
    with pytest.raises(UserError, match=r"^node .* has slotwise 0\.0\.1, and this is .*: must be the same$"):
        trained(PlayedRay(), folder, read(TWO))


def test_a_node_without_slotwise_is_told(read: Read, folder: SweepFolder) -> None:
    ray = PlayedRay(lambda number, name: RayTaskError("Traceback:\nModuleNotFoundError: slotwise"))
    with pytest.raises(UserError, match="cannot run slotwise: ModuleNotFoundError: slotwise"):
        trained(ray, folder, read(TWO))


@pytest.mark.parametrize("held", [0, 1])
def test_a_run_that_somebody_else_trains_stops_no_other(read: Read, folder: SweepFolder, held: int) -> None:
    sweep = read(TWO)
    run = sweep.runs[held]
    with RunFolder.create(folder.run(run.name).path, run.parameters).held():
        (failure,) = trained(PlayedRay(), folder, sweep)
    assert failure.run == run
    assert "another process is training this run" in failure.reason
    assert sorted(statuses(folder)) == ["finished", "running"]


@pytest.mark.parametrize("call", ["hello", "begin", "news"])
def test_a_head_that_is_lost_to_a_client_is_told(read: Read, folder: SweepFolder, call: str) -> None:
    ray = PlayedRay(lambda number, name: ConnectionError("GRPC connection failed") if name == call else None)
    with pytest.raises(UserError, match=f"^{GONE}"):
        trained(ray, folder, read(TWO))
    assert ray.shut == 1


def test_a_head_that_does_not_answer_any_more_is_told(
    read: Read, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "SECONDS_BETWEEN_QUESTIONS", 0.0)
    monkeypatch.setattr(cluster, "SECONDS_WITHOUT_HEAD", 0.0)
    crew = RayCrew(Cluster(PlayedRay(), there=False), folder, 1, 1, 1.0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"^{GONE}"):
        conduct(unfinished(folder, read("").runs), crew, SweepWatcher())


@pytest.mark.parametrize(
    ("points", "workers", "trainers"), [(1, None, 1), (2, None, 2), (8, None, 2), (8, 5, 5)]
)
def test_there_are_as_many_trainers_as_cores_that_are_there_or_as_is_said(
    folder: SweepFolder, read: Read, points: int, workers: int | None, trainers: int
) -> None:
    ray = PlayedRay()
    crew = RayCrew(Cluster(ray), folder, points, workers, 1.0)  # type: ignore[arg-type]
    assert not crew.give(unfinished(folder, read("").runs)[0], points)
    assert ray.made == trainers
    crew.close()
