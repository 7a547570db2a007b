"""The whole search on a task of milliseconds: cost, divergence, interruption, folders."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.costs import Powers
from slotwise.errors import InputError, UserError
from slotwise.learning import Evaluation
from slotwise.observer import Observer
from slotwise.recommendation.answer import Answer
from slotwise.recommendation.candidates import Candidate
from slotwise.recommendation.folder import RecommendFolder
from slotwise.recommendation.metric import Metric, Target
from slotwise.recommendation.pilots import Interrupted, PilotTasks
from slotwise.recommendation.question import Question
from slotwise.recommendation.search import Finding, Search, SearchWatcher, prepared
from slotwise.runs import RunConfig, RunFolder

from .conftest import Pulling, most_steps_of

Ask = Callable[..., Question]
POWERS = Powers(computing=2.0, sending=1.0, receiving=0.5)


def find(question: Question, path: Path, tasks: PilotTasks, watcher: SearchWatcher | None = None) -> Finding:
    folder = RecommendFolder(path)
    folder.begin(question.pilot_base)
    return Search(question, folder, tasks=tasks, watcher=watcher).run()


def test_the_steps_of_the_search_are_those_of_its_pilots_and_less_than_a_quarter_of_the_grid(
    question: Ask, tmp_path: Path, tasks: PilotTasks
) -> None:
    finding = find(question(), tmp_path / "out", tasks)
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
    question: Ask, tmp_path: Path, tasks: PilotTasks, made: list[Pulling], workers: int
) -> None:
    asked, folder = question(), RecommendFolder(tmp_path / "out")
    folder.begin(asked.pilot_base)
    finding = Search(asked, folder, tasks=tasks, workers=workers).run()
    climbs = len(finding.seeds) * sum(len(rung.ranking) for rung in finding.rungs)
    trained = sum(len(task.trainings) for task in made)
    assert finding.search_steps <= trained <= finding.search_steps + 4 * workers * climbs


def test_devices_that_all_leave_early_need_a_budget(question: Ask) -> None:
    leaving = [[device, 20] for device in range(1, 7)]
    with pytest.raises(InputError, match="budget = missing: must be given") as error:
        prepared(question(absences=leaving))
    (fewest,) = re.findall(r"(\d+) are the fewest", str(error.value))
    assert prepared(question(absences=leaving, budget=int(fewest)))[1].rungs


def test_the_best_is_the_one_with_the_lowest_loss_of_those_who_got_furthest(
    question: Ask, tmp_path: Path, tasks: PilotTasks
) -> None:
    answer = Answer(find(question(), tmp_path / "out", tasks), tmp_path)
    last = [standing for standing in answer.standings if standing.slot == answer.best.slot]
    assert answer.best.mean == min(standing.mean for standing in last if standing.mean is not None)
    assert answer.runner_up is last[1]
    assert answer.difference is not None
    assert answer.difference >= 0


def test_asked_again_it_trains_nothing_and_says_the_same(
    question: Ask, tmp_path: Path, tasks: PilotTasks, made: list[Pulling]
) -> None:
    first = Answer(find(question(), tmp_path / "out", tasks), tmp_path).to_json()
    count = sum(len(task.trainings) for task in made)
    assert Answer(find(question(), tmp_path / "out", tasks), tmp_path).to_json() == first
    assert sum(len(task.trainings) for task in made) == count


class Stopping(SearchWatcher, Observer):
    """Asks to stop after so many rounds of all pilots together."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def pilot_started(self, candidate: Candidate, seed: int) -> Observer:
        return self

    def round_done(self, round_number: int) -> None:
        self.left -= 1

    def wants_stop(self) -> bool:
        return self.left <= 0


@pytest.mark.parametrize("rounds", [1, 30, 200])
def test_interrupted_and_gone_on_with_it_says_the_same(
    rounds: int, question: Ask, tmp_path: Path, tasks: PilotTasks
) -> None:
    undisturbed = Answer(find(question(), tmp_path / "one", tasks), tmp_path).to_json()
    with pytest.raises(Interrupted):
        find(question(), tmp_path / "other", tasks, Stopping(rounds))
    assert Answer(find(question(), tmp_path / "other", tasks), tmp_path).to_json() == undisturbed


def test_a_budget_takes_seeds_away_and_is_kept(question: Ask, tmp_path: Path, tasks: PilotTasks) -> None:
    finding = find(question(budget=250), tmp_path / "out", tasks)
    assert finding.seeds == (0,)
    assert finding.search_steps <= 250


def test_a_larger_question_shares_the_pilots_of_a_smaller_one(
    question: Ask, tmp_path: Path, tasks: PilotTasks, made: list[Pulling]
) -> None:
    find(question(seeds=(0,)), tmp_path / "out", tasks)
    count = len(made[0].trainings)
    find(question(seeds=(0,), metric=Metric("accuracy")), tmp_path / "out", tasks)
    assert len(made[0].trainings) == count


class Unstable(Pulling):
    """Leaves the numbers with some of the seeds."""

    def __init__(self, parameters: RunConfig) -> None:
        super().__init__(parameters)
        self._bad = parameters.seed == 1 and parameters.policy.schedule == "sync"

    def evaluate(self, model: object) -> Evaluation:
        return Evaluation(float("inf"), 0.0) if self._bad else super().evaluate(model)  # type: ignore[arg-type]


class Anew(PilotTasks):
    """Makes a task for each run."""

    def of(self, parameters: RunConfig) -> Pulling:
        return Unstable(parameters)


def test_who_diverges_with_one_seed_is_out(question: Ask, tmp_path: Path) -> None:
    answer = Answer(find(question(), tmp_path / "out", Anew()), tmp_path)
    out = {standing.candidate.label for standing in answer.standings if standing.diverged}
    assert out == {f"sync S={size}" for size in (1, 2, 3, 6)}
    assert answer.best.candidate.schedule != "sync"


class Hopeless(Pulling):
    def evaluate(self, model: object) -> Evaluation:
        return Evaluation(float("nan"), 0.0)


def test_if_all_diverge_that_is_said(question: Ask, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="every candidate diverged"):
        find(question(), tmp_path / "out", PilotTasks(Hopeless))


def test_who_has_reached_the_target_is_not_trained_further(
    question: Ask, tmp_path: Path, tasks: PilotTasks
) -> None:
    easy = Metric("joules-to-target", Target("loss", 60.0), POWERS)
    finding = find(question(metric=easy), tmp_path / "out", tasks)
    furthest = max(curve[-1].slot for curves in finding.curves.values() for curve in curves)
    assert furthest <= 320 / 16
    assert Answer(finding, tmp_path).best.mean == 0.0


def test_joules_choose_the_thriftiest_of_those_who_reach_the_target(
    question: Ask, tmp_path: Path, tasks: PilotTasks
) -> None:
    answer = Answer(
        find(
            question(metric=Metric("joules-to-target", Target("loss", 1.0), POWERS)), tmp_path / "out", tasks
        ),
        tmp_path,
    )
    reached = [s.mean for s in answer.standings if s.slot == answer.best.slot and s.mean is not None]
    assert answer.best.mean == min(reached)
    assert answer.best.mean > 0


def test_a_single_candidate_is_the_answer_without_a_trial(
    question: Ask, tmp_path: Path, tasks: PilotTasks
) -> None:
    answer = Answer(find(question(sizes=(6,)), tmp_path / "out", tasks), tmp_path)
    assert answer.best.candidate.label == "sync S=6"
    assert (answer.runner_up, answer.confidence, answer.finding.search_steps) == (None, None, 0)


def test_a_folder_with_pilots_of_another_run_is_refused(question: Ask, tmp_path: Path) -> None:
    RecommendFolder(tmp_path / "out").begin(question().pilot_base)
    with pytest.raises(InputError, match="the pilots of this one have compute_slots 4"):
        RecommendFolder(tmp_path / "out").begin(question(compute_slots=5).pilot_base)


def test_a_damaged_folder_is_refused(question: Ask, tmp_path: Path) -> None:
    (tmp_path / "recommend.json").write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        RecommendFolder(tmp_path).begin(question().pilot_base)


def test_a_folder_of_another_format_is_refused(question: Ask, tmp_path: Path) -> None:
    (tmp_path / "recommend.json").write_text('{"format": 2, "parameters": {}}')
    with pytest.raises(UserError, match="format 2, this slotwise reads 1"):
        RecommendFolder(tmp_path).begin(question().pilot_base)


def test_evaluations_too_rare_for_the_first_rung_are_refused(question: Ask) -> None:
    with pytest.raises(InputError, match="evaluate_every = 6: must be at most 5"):
        question(evaluate_every=6)


def test_pilots_are_evaluated_eight_times_in_the_first_sixteenth(question: Ask) -> None:
    assert question(deadline=3200).pilot_base.evaluate_every == 25
    assert question(deadline=100).pilot_base.evaluate_every == 1
