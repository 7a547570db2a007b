"""The whole search on a task of milliseconds: cost, divergence, interruption, folders."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.batch.job import BatchObserver
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.recommendation.answer import Recommendation
from slotwise.recommendation.candidates import FolderTrainer, Stopped, begin, pilot_folder
from slotwise.recommendation.elimination import Question, Search
from slotwise.recommendation.metric import Metric, Target
from slotwise.recommendation.search import _group_sizes, recommend
from slotwise.runs import RunConfig, RunFolder
from slotwise.schedule.costs import Powers

from .conftest import Pulling, Tasks, make_question

Ask = Callable[..., Question]
MakeTask = Callable[[RunConfig], Task]
POWERS = Powers(computing=2.0, sending=1.0, receiving=0.5)

pytestmark = pytest.mark.usefixtures("no_grid_is_small")


@pytest.fixture
def question() -> Ask:
    """A question with few candidates: each is resumed up to sixteen times."""
    return partial(make_question, sizes=(1, 2), seeds=(0,))


def find(
    question: Question,
    path: Path,
    make_task: MakeTask,
    observer: BatchObserver | None = None,
    workers: int = 1,
) -> Recommendation:
    folder = pilot_folder(path)
    begin(folder, question.base)
    train = FolderTrainer(folder, make_task=make_task, workers=workers, observer=observer)
    return Recommendation(Search(question, train, observer).run(), Path("out"))


def trained_updates(path: Path) -> int:
    """Return the updates of all pilots in a folder."""
    folders = [RunFolder(pilot) for pilot in (path / "pilots").iterdir()]
    return sum(int(f.parameters().simulate().round_offsets[f.description()["rounds"]]) for f in folders)


def test_the_best_has_the_lowest_loss_and_asked_again_nothing_is_trained(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    answer = find(question(), tmp_path / "out", tasks.make)
    assert answer.finding.search_steps == trained_updates(tmp_path / "out")  # one step a training
    assert 0 < answer.finding.search_steps < answer.finding.question.grid_steps
    assert answer.share == answer.finding.search_steps / answer.finding.question.grid_steps
    ends = [s for s in answer.standings if s.slot == 320]
    assert answer.best in ends
    assert answer.best.values[0] == min(s.values[0] for s in ends if s.values[0] is not None)
    count = tasks.trainings
    assert find(question(), tmp_path / "out", tasks.make).to_json() == answer.to_json()
    assert tasks.trainings == count


@pytest.mark.parametrize("workers", [1, 3])
def test_only_trainings_begun_ahead_are_done_again_when_a_pilot_goes_on(
    question: Ask, tmp_path: Path, tasks: Tasks, workers: int
) -> None:
    finding = find(question(), tmp_path / "out", tasks.make, workers=workers).finding
    stops = 16 * len(finding.curves)
    assert finding.search_steps <= tasks.trainings <= finding.search_steps + 4 * workers * stops


class Stopping(BatchObserver):
    """Asks to stop after so many questions whether to stop; a run asks before every round."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def wants_stop(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("rounds", [1, 150])
def test_a_stopped_search_resumes_and_says_the_same(
    rounds: int, question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    undisturbed = find(question(), tmp_path / "one", tasks.make).to_json()
    with pytest.raises(Stopped):
        find(question(), tmp_path / "other", tasks.make, Stopping(rounds))
    assert find(question(), tmp_path / "other", tasks.make).to_json() == undisturbed


def test_another_question_shares_the_pilots(question: Ask, tmp_path: Path, tasks: Tasks) -> None:
    find(question(), tmp_path / "out", tasks.make)
    count = tasks.trainings
    find(question(metric=Metric("accuracy")), tmp_path / "out", tasks.make)
    assert tasks.trainings < 2 * count


class Unstable(Pulling):
    """Diverges with one of the schedules."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._bad = config.schedule == "sync"

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float("inf"), 0.0) if self._bad else super().evaluate(model)


def test_a_candidate_that_diverges_is_out(question: Ask, tmp_path: Path) -> None:
    answer = find(question(), tmp_path / "out", Unstable)
    out = {standing.candidate.label for standing in answer.standings if standing.diverged}
    assert out == {"sync S=1", "sync S=2"}
    assert answer.best.candidate.schedule != "sync"


def test_who_has_reached_the_target_is_not_trained_further(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    easy = Metric("joules-to-target", Target("loss", 60.0), POWERS)
    answer = find(question(metric=easy), tmp_path / "out", tasks.make)
    assert max(standing.slot for standing in answer.standings) <= 320 / 16
    assert answer.best.mean == 0.0


def test_joules_choose_the_thriftiest_of_those_who_reach_the_target(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    metric = Metric("joules-to-target", Target("loss", 1.0), POWERS)
    answer = find(question(metric=metric), tmp_path / "out", tasks.make)
    reached = [s.values[0] for s in answer.standings if s.values[0] is not None]
    assert answer.best.values[0] is not None
    assert 0 < answer.best.values[0] <= 1.1 * min(reached)


class LateDivergence(Pulling):
    """Diverges when a device has trained some times, with one of the schedules."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._bad = config.schedule == "sync"

    def evaluate(self, model: Vector) -> Evaluation:
        late = any(training > 5 for _, training in self.trainings)
        return Evaluation(float("inf"), 0.0) if late and self._bad else super().evaluate(model)


def test_a_pilot_that_diverged_later_still_counts_at_an_earlier_slot(question: Ask, tmp_path: Path) -> None:
    late = find(question(), tmp_path / "out", LateDivergence)
    assert any(standing.diverged for standing in late.standings)
    early = find(question(budget=120), tmp_path / "out", LateDivergence)
    assert not any(standing.diverged for standing in early.standings)


class Broken(Pulling):
    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        raise RuntimeError("broken task")


def test_a_pilot_that_fails_ends_the_search_with_the_reason(question: Ask, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="RuntimeError: broken task"):
        find(question(), tmp_path / "out", Broken)


def test_pilots_of_another_run_are_refused(question: Ask, tmp_path: Path, tasks: Tasks) -> None:
    folder = pilot_folder(tmp_path / "out")
    begin(folder, question().base)
    with pytest.raises(InputError, match="compute_slots 4") as error:
        begin(folder, question(compute_slots=5).base)
    assert error.value.parameter == "out"
    RunFolder.create(tmp_path / "out" / "pilots" / "sync-S1-seed0", RunConfig())
    (tmp_path / "out" / "recommend.json").write_text('{"format": 1, "parameters": {}}')
    with pytest.raises(UserError, match="made with other options"):
        find(question(), tmp_path / "out", tasks.make)


@pytest.mark.parametrize(
    "manifest", ["{}", '{"format": 2, "parameters": {}}'], ids=["damaged", "other-format"]
)
def test_a_damaged_folder_is_refused(manifest: str, question: Ask, tmp_path: Path) -> None:
    (tmp_path / "recommend.json").write_text(manifest)
    with pytest.raises(UserError):
        begin(pilot_folder(tmp_path), question().base)


def test_only_group_sizes_that_the_rule_allows_are_candidates() -> None:
    krum = RunConfig.from_options({"aggregation": "krum", "byzantine": 3, "devices": 20, "group_size": 10})
    assert _group_sizes(krum, None) == (10, 20)
    assert _group_sizes(krum, [20, 9]) == (9, 20)
    assert _group_sizes(krum.with_options(aggregation="mean"), None) == (1, 2, 4, 5, 10, 20)
    with pytest.raises(InputError) as caught:
        _group_sizes(krum, [5, 10])
    assert caught.value.parameter == "byzantine"
    for wrong in (2, 21, "10"):
        with pytest.raises(InputError) as caught:
            _group_sizes(krum, [wrong, 10])
        assert caught.value.parameter == "group_sizes"


def test_the_slot_of_a_cpu_gives_the_joules_also_without_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "slotwise.recommendation.candidates.TaskCache.make", lambda _, config: Pulling(config)
    )
    options = {"devices": 6, "group_size": 1, "deadline": 320, "local_steps": 1, "batch_size": 4}
    cpu = {"cycles_per_sample": 2e6, "cpu_ghz": 1.0, "cpu_slot_ms": 2.0}
    plain = RunConfig.from_options({**options, "compute_slots": 4})
    found = [
        recommend(
            config,
            group_sizes=(1, 2),
            metric="joules-to-target",
            target="loss=1",
            seeds=1,
            powers=powers,
            out=tmp_path / name,
            workers=1,
        )
        for name, config, powers in (
            ("cpu", RunConfig.from_options({**options, **cpu}), POWERS),
            ("seconds", plain, replace(POWERS, slot_seconds=0.002)),
        )
    ]
    assert found[0].standings == found[1].standings
    assert found[0].best.values[0] is not None
    written = [(tmp_path / name / "recommended.toml").read_text() for name in ("cpu", "seconds")]
    assert written[0] == written[1]
