"""Compute slots follow from the samples that each device processes, before anything is trained."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import ConflictError, InputError, NoEffectError
from slotwise.cli import main
from slotwise.data import data_source
from slotwise.learning import TrainingStart, train
from slotwise.runs import Observer, RunConfig, SavedRun, resume, run
from slotwise.runs.device_data import device_samples
from slotwise.runs.execution import build_task
from slotwise.schedule import Timeline
from slotwise.schedule.timeline import Trainings
from slotwise.setting import Setting

LISTED = {"devices": 3, "group_size": 1, "device_samples": [10, 70, 300]}
SKEWED = {"devices": 5, "group_size": 2, "samples_per_device": 50, "sample_skew": 0.5}
TINY = {"network": "logistic", "deadline": 60, "batch_size": 8}


class AfterOneRound(Observer):
    """Ends a run after its first round."""

    rounds = 0

    def round_done(self, round_number: int) -> None:
        self.rounds += 1

    def wants_stop(self) -> bool:
        return self.rounds > 0


def slots(**options: Any) -> Any:
    table = RunConfig.from_options(options).options()
    return table.get("device_compute_slots") or table["compute_slots"]


def test_the_paper_s_cases_are_those_of_its_numbers() -> None:
    assert slots(samples_per_slot=6.4) == 50  # H=5, B=64
    assert slots(samples_per_slot=128, data="cifar10") == 4  # H=8, B=64
    assert slots(samples_per_slot=128, data="cifar10", local_epochs=2) == 4  # 500 samples


def test_two_epochs_of_cifar10_are_as_many_steps_as_the_paper_s_case_has() -> None:
    epochs = RunConfig.from_options({"data": "cifar10", "local_epochs": 2})
    steps = RunConfig.from_options({"data": "cifar10"})
    assert [one.training.batching.option for one in (epochs, steps)] == ["local_epochs", "local_steps"]
    assert epochs.steps_per_training == steps.steps_per_training == 8
    assert (epochs.channel, epochs.dataset) == (steps.channel, steps.dataset)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"local_epochs": 2}, (2, 14, 60)),
        ({"local_epochs": 2, "batch_size": 10, "last_batch": "dropped"}, (2, 14, 60)),
        ({"local_epochs": 1, "batch_size": 9, "last_batch": "dropped"}, (1, 7, 30)),  # 9, 63 and 297
        ({"local_steps": 5}, (5, 32, 32)),  # device 1 uses its 10 samples in every step
        ({"local_steps": 2, "batch_sampling": "without-replacement"}, (2, 7, 13)),  # 64 + 6 of device 2
    ],
)
def test_slots_follow_from_the_samples_of_each_device(options: dict[str, Any], expected: Any) -> None:
    assert slots(**LISTED, samples_per_slot=10, **options) == expected


def test_joules_of_a_cpu_follow_from_the_samples_of_each_device() -> None:
    cpu = {"cycles_per_sample": 1e6, "cpu_ghz": 1, "cpu_slot_ms": 10, "cpu_kappa": 1e-28}
    config = RunConfig.from_options({**LISTED, **cpu, "local_epochs": 1, "battery_joules": 10})
    fleet = config.make_fleet()
    assert fleet is not None
    assert fleet.compute_slots == (1, 7, 30)
    assert config.options()["device_computing_joules"] == pytest.approx((1e-3, 1e-3, 1e-3))


def test_sizes_are_those_of_the_partition_and_images_are_not_loaded(monkeypatch: Any) -> None:
    config = RunConfig.from_options({**SKEWED, **TINY, "samples_per_slot": 3, "local_epochs": 1, "seed": 4})
    held = [len(rows) for rows in device_samples(config).rows]
    assert config.device_sizes() == tuple(held)
    monkeypatch.setattr(data_source, "load_mnist", lambda: pytest.fail("the data were loaded"))
    fleet = RunConfig.from_options(
        {**SKEWED, **TINY, "samples_per_slot": 3, "local_epochs": 1, "seed": 4}
    ).make_fleet()
    assert fleet is not None
    assert fleet.compute_slots == tuple(-(-count // 3) for count in held)


def test_a_partition_by_the_user_s_own_function_is_asked(tmp_path: Path, monkeypatch: Any) -> None:
    code = "import numpy as np\ndef cut(dataset, devices, generator):\n"
    code += "    return [np.arange(4 * n + 4) for n in range(devices)]\n"
    (tmp_path / "own_cut.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    found = slots(devices=3, group_size=1, partition="own_cut:cut", samples_per_slot=4, local_epochs=2)
    assert found == (2, 4, 6)


def test_drawn_sizes_keep_their_seed_when_another_seed_is_tried() -> None:
    config = RunConfig.from_options({**SKEWED, "samples_per_slot": 3, "local_epochs": 1, "seed": 4})
    other = config.with_options(seed=9)
    assert other.device_sizes() == config.device_sizes()
    drawn = RunConfig.from_options({**SKEWED, "samples_per_slot": 3, "local_epochs": 1, "seed": 9})
    assert drawn.device_sizes() != config.device_sizes()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"local_epochs": 2, "local_steps": 3}, ConflictError),
        ({"local_epochs": 0}, InputError),
        ({"samples_per_device": 10}, NoEffectError),
    ],
)
def test_a_plan_refuses_what_a_training_does(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Setting.from_options({"samples_per_slot": 10, **options})


def test_a_plan_counts_the_samples_of_epochs() -> None:
    assert Setting.from_options({"samples_per_slot": 10, "local_epochs": 2}).channel.compute_slots == 50
    few = {"samples_per_slot": 10, "local_epochs": 2, "samples_per_device": 31}
    assert Setting.from_options(few).channel.compute_slots == 7


def test_a_run_of_epochs_resumes_to_the_same_bits_and_counts_its_steps(tmp_path: Path) -> None:
    options = {**SKEWED, **TINY, "samples_per_slot": 3, "local_epochs": 2}
    config = RunConfig.from_options(options)
    whole = run(config, tmp_path / "whole", workers=2).history
    assert run(config, tmp_path / "parts", workers=1, observer=AfterOneRound()).status == "interrupted"
    assert np.array_equal(resume(tmp_path / "parts", workers=3).history.model, whole.model)
    saved, timeline = SavedRun.read(tmp_path / "whole"), config.simulate()
    steps = [2 * -(-count // 8) for count in config.device_sizes()]
    assert saved.sgd_steps == sum(steps[device - 1] for device in timeline.device)
    assert np.array_equal(train(timeline, build_task(config), workers=1).model, whole.model)


def _exit_code(monkeypatch: Any, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["slotwise", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--local-epochs", "0"], "--local-epochs 0: must be a whole number from 1 to 1,000,000,000"),
        (
            ["--local-epochs", "2", "--local-steps", "3"],
            "--local-steps cannot be combined with --local-epochs",
        ),
    ],
)
def test_a_command_says_in_one_line_what_is_wrong(
    words: list[str], message: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    assert _exit_code(monkeypatch, "train", *words, "--out", str(tmp_path / "run")) == 2
    assert capsys.readouterr().err.strip().endswith(message)
    assert not (tmp_path / "run").exists()


def test_flags_toml_and_a_sweep_take_local_epochs(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    small = 'devices = 3\ngroup-size = 1\nsamples-per-device = 9\nnetwork = "logistic"\ndeadline = 200\n'
    (tmp_path / "run.toml").write_text(small + "batch-size = 4\nlocal-epochs = 2\n")
    words = ["--config", str(tmp_path / "run.toml"), "--quiet", "--out", str(tmp_path / "toml")]
    assert _exit_code(monkeypatch, "train", *words) == 0
    options = json.loads((tmp_path / "toml/run.json").read_text())["parameters"]
    assert (options["local_epochs"], options["last_batch"], "local_steps" in options) == (2, "short", False)
    axis = "local-epochs = [1, 3]\n"
    (tmp_path / "sweep.toml").write_text(small + "samples-per-slot = 3\n" + axis)
    assert _exit_code(monkeypatch, "sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "s")) == 0
    capsys.readouterr()
    with (tmp_path / "s/results.csv").open(newline="") as table:
        found = list(csv.DictReader(table))
    assert [row["local_epochs"] for row in found] == ["1", "3"]
    assert [int(row["sgd_steps"]) // int(row["updates"]) for row in found] == [1, 3]


CHANGING = {"batch_size": "4@0, 16@30", "local_steps": 2, "samples_per_slot": 4}


def test_compute_slots_follow_a_batch_size_that_changes() -> None:
    config = RunConfig.from_options({**LISTED, **TINY, **CHANGING, "schedule": "async"})
    fleet, timeline = config.make_fleet(), config.simulate()
    assert fleet.compute_slots == (2, 2, 2)
    assert fleet.compute_changes == ((30, (5, 8, 8)),)  # device 1 has 10 samples
    trainings = Trainings.of(timeline)
    late = trainings.start >= 30
    assert set((trainings.ready - trainings.start)[~late].tolist()) == {2}
    expected = [5 if device == 1 else 8 for device in trainings.device[late].tolist()]
    assert (trainings.ready - trainings.start)[late].tolist() == expected
    assert late.any()
    assert Timeline.from_json(timeline.to_json()) == timeline
    assert RunConfig.from_saved(json.loads(json.dumps(config.options()))) == config


def test_a_training_has_the_batch_size_of_its_model_until_it_is_given_anew() -> None:
    training = RunConfig.from_options({**LISTED, **TINY, **CHANGING}).training
    starts = [TrainingStart(3, 0, round=1, slot=slot) for slot in (0, 29, 30, 90)]
    assert [[len(rows) for rows in training.batches(start, 300)] for start in starts] == (
        [[4, 4], [4, 4], [16, 16], [16, 16]]
    )
    config = RunConfig.from_options({**LISTED, **TINY, **CHANGING})
    assert config.with_options(batch_size=8).training.batch_sizes == (8,)
    assert config.training.batch_sizes == (4, 16)
    plan = Setting.from_options({"samples_per_slot": 4, "batch_size": "4@0, 16@30"})
    assert plan.make_fleet().compute_changes == ((30, (20,) * 100),)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_changing_batches_give_the_same_bits_for_any_number_of_workers(schedule: str) -> None:
    config = RunConfig.from_options({**LISTED, **TINY, **CHANGING, "schedule": schedule})
    task, timeline = build_task(config), config.simulate()
    models = [train(timeline, task, workers=workers).model.tobytes() for workers in (1, 3)]
    assert models[0] == models[1]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": "16@5"},
        {"batch_size": "16"},
        {"batch_size": "16@0, 0@7"},
        {"batch_size": "16@0, 4@7, 8@7"},
        {"compute_changes": [[30, [1, 2]]]},
        {"compute_changes": [[0, 5]]},
        {"compute_changes": 5},
        {"compute_changes": [[30, 5]], "samples_per_slot": 4},
    ],
)
def test_wrong_changes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        RunConfig.from_options(options)
