import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slotwise.recommendation.answer import Answer, toml_of
from slotwise.recommendation.folder import RecommendFolder
from slotwise.recommendation.picture import draw_picture
from slotwise.recommendation.pilots import PilotTasks
from slotwise.recommendation.question import Question
from slotwise.recommendation.search import Search
from slotwise.runs import RunConfig, read_toml


@pytest.fixture
def answer(question: Callable[..., Question], tmp_path: Path, tasks: PilotTasks) -> Answer:
    folder = RecommendFolder(tmp_path / "a folder")
    asked = question()
    folder.begin(asked.pilot_base)
    return Answer(Search(asked, folder, tasks=tasks).run(), folder.path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learning_rate": 1e-5, "partition": "dirichlet", "hidden": [], "evaluate_every": 7},
        {"task": "my_module:make_task"},
        {"devices": 3, "group_size": 1, "device_compute_slots": [4, 5, 6], "absences": [[2, 10, 20], [3, 5]]},
    ],
)
def test_the_options_of_a_run_survive_the_file(options: dict[str, object], tmp_path: Path) -> None:
    parameters = RunConfig.from_options(options)
    (tmp_path / "run.toml").write_text(toml_of(parameters))
    assert RunConfig.from_options(read_toml(tmp_path / "run.toml")) == parameters


def test_the_answer_is_the_whole_run_with_the_best_schedule_and_the_first_seed(answer: Answer) -> None:
    best = answer.best.candidate
    chosen = answer.parameters()
    assert (chosen.schedule, chosen.group_size, chosen.seed) == (best.schedule, best.group_size, 0)
    assert replace(chosen, schedule="idfl", group_size=1) == answer.finding.question.base
    assert isinstance(chosen, RunConfig)


def test_the_json_holds_every_candidate_once_in_the_order_of_the_answer(answer: Answer) -> None:
    document = json.loads(answer.to_json())
    assert document["standings"][0] == document["answer"]
    assert document["standings"][1] == document["runner_up"]
    names = [(entry["schedule"], entry["group_size"]) for entry in document["standings"]]
    assert len(names) == len(set(names)) == len(answer.finding.field.running)
    assert document["difference"] == document["runner_up"]["metric"] - document["answer"]["metric"]
    assert document["cost"]["share"] == document["cost"]["search_steps"] / document["cost"]["grid_steps"]


def test_commands_can_be_pasted_whatever_the_folder_is_called(answer: Answer) -> None:
    assert "'" in answer.train_command
    assert answer.resume_command is not None
    assert answer.resume_command.endswith(f"{answer.best.candidate.name}-seed0'")


def test_the_same_pilots_give_the_same_picture(answer: Answer) -> None:
    assert draw_picture(answer, "png") == draw_picture(answer, "png")
