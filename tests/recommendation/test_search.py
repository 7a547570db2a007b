"""The whole search on a task of milliseconds: cost, divergence, interruption, folders."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.aggregation import Vector
from slotwise.costs import Powers
from slotwise.errors import InputError, UserError
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.observer import Observer
from slotwise.recommendation.answer import Finding, Question, Recommendation
from slotwise.recommendation.metric import Metric, Target
from slotwise.recommendation.search import Search, Stopped, _group_sizes, begin, recommendation_folder
from slotwise.runs import RunConfig, RunFolder

from .conftest import Pulling, Tasks, most_steps_of

Ask = Callable[..., Question]
POWERS = Powers(computing=2.0, sending=1.0, receiving=0.5)


MakeTask = Callable[[RunConfig], Task]


def find(
    question: Question, path: Path, make_task: MakeTask, observer: Observer | None = None, workers: int = 1
) -> Finding:
    folder = recommendation_folder(path)
    begin(folder, question.pilot_base)
    return Search(question, folder, make_task=make_task, workers=workers, observer=observer).run()


def test_the_steps_of_the_search_are_those_of_its_pilots_and_less_than_a_quarter_of_the_grid(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    finding = find(question(), tmp_path / "out", tasks.make)
    trained = 0
    for path in (tmp_path / "out" / "pilots").iterdir():
        folder = RunFolder(path)
        trained += int(folder.parameters().simulate().round_offsets[folder.description()["rounds"]])
    assert finding.search_steps == trained  # one step a training
    at_most = most_steps_of(finding.field, finding.extent, 1)
    assert 0 < finding.search_steps <= at_most <= finding.extent.limit
    assert at_most < finding.grid_steps / 4


@pytest.mark.parametrize("workers", [1, 3])
def test_only_trainings_begun_ahead_are_done_again_when_a_pilot_goes_on(
    question: Ask, tmp_path: Path, tasks: Tasks, workers: int
) -> None:
    finding = find(question(), tmp_path / "out", tasks.make, workers=workers)
    climbs = len(finding.seeds) * sum(len(rung.ranking) for rung in finding.rungs)
    assert finding.search_steps <= tasks.trainings <= finding.search_steps + 4 * workers * climbs


def test_devices_that_all_leave_early_need_a_budget(question: Ask) -> None:
    leaving = [[device, 20] for device in range(1, 7)]
    with pytest.raises(InputError) as error:
        question(absences=leaving).prepare()
    assert error.value.parameter == "budget"
    (fewest,) = re.findall(r"(\d+)", error.value.allowed)
    assert question(absences=leaving, budget=int(fewest)).prepare()[1].rungs


def test_the_best_is_the_one_with_the_lowest_loss_of_those_who_got_furthest(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    answer = Recommendation(find(question(), tmp_path / "out", tasks.make), tmp_path)
    last = [standing for standing in answer.standings if standing.slot == answer.best.slot]
    assert answer.best.mean == min(standing.mean for standing in last if standing.mean is not None)
    assert answer.runner_up is last[1]
    assert answer.difference is not None
    assert answer.difference >= 0


def test_asked_again_it_trains_nothing_and_says_the_same(question: Ask, tmp_path: Path, tasks: Tasks) -> None:
    first = Recommendation(find(question(), tmp_path / "out", tasks.make), tmp_path).to_json()
    count = tasks.trainings
    assert Recommendation(find(question(), tmp_path / "out", tasks.make), tmp_path).to_json() == first
    assert tasks.trainings == count


class Stopping(Observer):
    """Asks to stop after so many questions whether to stop; a run asks before every round."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def wants_stop(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("rounds", [1, 30, 200])
def test_a_stopped_search_resumes_and_says_the_same(
    rounds: int, question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    undisturbed = Recommendation(find(question(), tmp_path / "one", tasks.make), tmp_path).to_json()
    with pytest.raises(Stopped):
        find(question(), tmp_path / "other", tasks.make, Stopping(rounds))
    assert Recommendation(find(question(), tmp_path / "other", tasks.make), tmp_path).to_json() == undisturbed


def test_a_budget_takes_seeds_away_and_is_kept(question: Ask, tmp_path: Path, tasks: Tasks) -> None:
    finding = find(question(budget=250), tmp_path / "out", tasks.make)
    assert finding.seeds == (0,)
    assert finding.search_steps <= 250


def test_a_larger_question_shares_the_pilots_of_a_smaller_one(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    find(question(seeds=(0,)), tmp_path / "out", tasks.make)
    count = tasks.trainings
    find(question(seeds=(0,), metric=Metric("accuracy")), tmp_path / "out", tasks.make)
    assert tasks.trainings == count


class Unstable(Pulling):
    """Diverges with one of the seeds."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._bad = config.seed == 1 and config.policy.schedule == "sync"

    def evaluate(self, model: object) -> Evaluation:
        return Evaluation(float("inf"), 0.0) if self._bad else super().evaluate(model)  # type: ignore[arg-type]


def test_a_candidate_that_diverges_with_one_seed_is_out(question: Ask, tmp_path: Path) -> None:
    answer = Recommendation(find(question(), tmp_path / "out", Unstable), tmp_path)
    out = {standing.candidate.label for standing in answer.standings if standing.diverged}
    assert out == {f"sync S={size}" for size in (1, 2, 3, 6)}
    assert answer.best.candidate.schedule != "sync"


class Hopeless(Pulling):
    def evaluate(self, model: object) -> Evaluation:
        return Evaluation(float("nan"), 0.0)


def test_if_all_diverge_that_is_said(question: Ask, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="every candidate diverged"):
        find(question(), tmp_path / "out", Hopeless)


def test_who_has_reached_the_target_is_not_trained_further(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    easy = Metric("joules-to-target", Target("loss", 60.0), POWERS)
    finding = find(question(metric=easy), tmp_path / "out", tasks.make)
    furthest = max(curve[-1].slot for curves in finding.curves.values() for curve in curves)
    assert furthest <= 320 / 16
    assert Recommendation(finding, tmp_path).best.mean == 0.0


def test_joules_choose_the_thriftiest_of_those_who_reach_the_target(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    metric = Metric("joules-to-target", Target("loss", 1.0), POWERS)
    answer = Recommendation(find(question(metric=metric), tmp_path / "out", tasks.make), tmp_path)
    reached = [s.mean for s in answer.standings if s.slot == answer.best.slot and s.mean is not None]
    assert answer.best.mean == min(reached)
    assert answer.best.mean > 0


def test_a_single_candidate_is_the_answer_without_a_trial(
    question: Ask, tmp_path: Path, tasks: Tasks
) -> None:
    answer = Recommendation(find(question(sizes=(6,)), tmp_path / "out", tasks.make), tmp_path)
    assert answer.best.candidate.label == "sync S=6"
    assert (answer.runner_up, answer.confidence, answer.finding.search_steps) == (None, None, 0)


class LateDivergence(Pulling):
    """Diverges after some trainings."""

    def evaluate(self, model: object) -> Evaluation:
        return Evaluation(float("inf") if len(self.trainings) > 40 else 1.0, 0.5)


def test_a_pilot_that_diverged_later_still_counts_on_earlier_rungs(question: Ask, tmp_path: Path) -> None:
    late = find(question(seeds=(0,), budget=5000), tmp_path / "out", LateDivergence)
    assert late.rungs[0].out
    early = find(question(seeds=(0,), budget=200), tmp_path / "out", LateDivergence)
    assert not early.rungs[0].out


class Broken(Pulling):
    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        raise RuntimeError("broken task")


def test_a_pilot_that_fails_ends_the_search_with_the_reason(question: Ask, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="RuntimeError: broken task"):
        find(question(), tmp_path / "out", Broken)


def test_a_folder_with_pilots_of_another_run_is_refused(question: Ask, tmp_path: Path) -> None:
    folder = recommendation_folder(tmp_path / "out")
    begin(folder, question().pilot_base)
    with pytest.raises(InputError, match="compute_slots 4") as error:
        begin(folder, question(compute_slots=5).pilot_base)
    assert error.value.parameter == "out"


def test_a_pilot_of_another_run_is_refused(question: Ask, tmp_path: Path, tasks: Tasks) -> None:
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
        begin(recommendation_folder(tmp_path), question().pilot_base)


def test_evaluations_too_rare_for_the_first_rung_are_refused(question: Ask) -> None:
    with pytest.raises(InputError, match="at most 5") as error:
        question(evaluate_every=6)
    assert error.value.parameter == "evaluate_every"


def test_pilots_are_evaluated_eight_times_in_the_first_sixteenth(question: Ask) -> None:
    assert question(deadline=3200).pilot_base.evaluate_every == 25
    assert question(deadline=100).pilot_base.evaluate_every == 1


def test_only_group_sizes_that_the_rule_allows_are_candidates() -> None:
    krum = RunConfig.from_options({"aggregation": "krum", "byzantine": 3, "devices": 20, "group_size": 10})
    assert _group_sizes(krum, None) == (10, 20)
    assert _group_sizes(krum, [20, 9]) == (9, 20)
    assert _group_sizes(krum.with_options(aggregation="mean", byzantine=2), None) == (1, 2, 4, 5, 10, 20)
    with pytest.raises(InputError) as caught:
        _group_sizes(krum, [5, 10])
    assert caught.value.parameter == "byzantine"
    with pytest.raises(InputError) as caught:
        _group_sizes(krum, [2, 10])
    assert caught.value.parameter == "group_sizes"
