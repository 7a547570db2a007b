import json
from pathlib import Path

import pytest

from slotwise.recommendation.answer import Recommendation
from slotwise.recommendation.answer_text import draw_pilots
from slotwise.recommendation.candidates import FolderTrainer, begin, pilot_folder
from slotwise.recommendation.elimination import Search
from slotwise.recommendation.search import toml_of
from slotwise.runs import RunConfig, read_toml

from .conftest import Tasks, make_question


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Recommendation:
    folder = pilot_folder(tmp_path_factory.mktemp("answer") / "a folder")
    asked = make_question(sizes=(1, 2))
    begin(folder, asked.base)
    return Recommendation(Search(asked, FolderTrainer(folder, make_task=Tasks().make)).run(), folder.path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learning_rate": 1e-5, "partition": "dirichlet", "hidden": [], "evaluate_every": 7},
        {"task": "my_module:make_task"},
        {"flower_app": "an app 😀"},
        {"devices": 3, "group_size": 1, "device_compute_slots": [4, 5, 6], "absences": [[2, 10, 20], [3, 5]]},
    ],
)
def test_the_options_of_a_run_survive_the_file(options: dict[str, object], tmp_path: Path) -> None:
    config = RunConfig.from_options(options)
    (tmp_path / "run.toml").write_text(toml_of(config))
    assert RunConfig.from_options(read_toml(tmp_path / "run.toml")) == config


def test_the_answer_is_a_run_and_its_json_columns_and_text_agree(answer: Recommendation) -> None:
    best = answer.best.candidate
    chosen = answer.config
    found = (chosen.schedule, chosen.channel.group_size, chosen.seed)
    assert found == (best.schedule, best.group_size, 0)
    assert chosen.with_options(schedule="idfl", group_size=1) == answer.finding.question.base
    document = json.loads(answer.to_json())
    assert document["standings"][0] == document["answer"]
    labels = [standing.candidate.label for standing in answer.choices]
    assert document["choices"] == labels
    assert document["decided"] == (len(labels) == 1) == answer.decided
    names = [(entry["schedule"], entry["group_size"]) for entry in document["standings"]]
    assert len(names) == len(set(names)) == len(answer.finding.question.field.candidates)
    assert document["cost"]["share"] == document["cost"]["search_steps"] / document["cost"]["grid_steps"]
    columns = answer.columns()
    assert columns["group_size"] == [standing.candidate.group_size for standing in answer.standings]
    assert {len(column) for column in columns.values()} == {len(answer.standings)}
    assert "'" in (answer.train_command or "")
    assert answer.resume_command is None  # it was trained to the deadline
    assert draw_pilots(answer, "png") == draw_pilots(answer, "png")
    assert f"use {best.schedule} with a group size of {best.group_size}" in str(answer)
    assert len(str(answer)) < 2000
    assert len(repr(answer)) < 2000


def test_the_json_of_a_candidate_that_was_not_trained_has_no_infinite_number(tmp_path: Path) -> None:
    asked = make_question(sizes=(6,))  # one candidate, so nothing is compared
    trainer = FolderTrainer(pilot_folder(tmp_path), make_task=Tasks().make)
    text = Recommendation(Search(asked, trainer).run(), tmp_path).to_json()
    assert json.loads(text, parse_constant=pytest.fail)["answer"]["optimistic"] is None
