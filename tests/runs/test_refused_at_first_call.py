"""A task or rule of the user's that fails at its first call leaves no folder, and an old run as it was."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.cnn_task import CnnTask
from slotwise.runs import RunConfig, RunFolder, run

CONFIG = RunConfig().with_options(devices=4, group_size=2, compute_slots=2, deadline=40)


class Own:
    """A task whose method ``wrong`` returns nonsense."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def initial_model(self) -> np.ndarray:
        return np.zeros(3, np.float32)

    def local_update(self, model: np.ndarray, start: TrainingStart) -> object:
        return "nonsense" if self.wrong == "local_update" else np.ones(3, np.float32)

    def evaluate(self, model: np.ndarray) -> object:
        return "nonsense" if self.wrong == "evaluate" else Evaluation(1.0, 0.5)

    def named_arrays(self, model: np.ndarray) -> dict[str, np.ndarray]:
        return {"w": model}


def own(wrong: str = "") -> Task:
    return CheckedTask("own", Own(wrong))


class Exits(Own):
    """A task that calls sys.exit in its second trainings."""

    def local_update(self, model: np.ndarray, start: TrainingStart) -> object:
        return sys.exit("enough") if start.training else np.ones(3, np.float32)


class FiveDevices(Own):
    devices = 5


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("method", ["local_update", "evaluate"])
def test_a_wrong_task_leaves_no_folder(tmp_path: Path, method: str) -> None:
    with pytest.raises(UserError, match=method):
        run(CONFIG, tmp_path / "deep" / "run", task=own(method))
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_rule_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_wrong_rule.py").write_text("def rule(model, contributions):\n    return model[:2]\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError):
        run(CONFIG.with_options(aggregation="own_wrong_rule:rule"), tmp_path / "run", task=own())
    assert not (tmp_path / "run").exists()


def test_a_wrong_rule_is_refused_before_a_built_in_network_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other_wrong_rule.py").write_text("def rule(model, contributions):\n    return model[:2]\n")
    monkeypatch.syspath_prepend(tmp_path)
    for method in ("local_updates", "evaluate"):  # kernels are compiled when they are first called
        monkeypatch.setattr(CnnTask, method, lambda *_: pytest.fail("computed"))
    options = {"aggregation": "other_wrong_rule:rule", "network": "logistic"}
    with pytest.raises(UserError, match="other_wrong_rule"):
        run(CONFIG.with_options(**options), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_old_run_is_not_replaced_by_one_that_is_refused(tmp_path: Path) -> None:
    run(CONFIG, tmp_path / "run", task=own())
    before = content(tmp_path / "run")
    with pytest.raises(UserError):
        run(CONFIG, tmp_path / "run", task=own("local_update"), overwrite=True)
    assert content(tmp_path / "run") == before
    run(CONFIG, tmp_path / "run", task=own(), overwrite=True)


def test_a_folder_that_cannot_be_used_is_refused_before_any_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "run", tmp_path):
        with pytest.raises(UserError, match="out = "):
            run(CONFIG, place, task=own("local_update"))


OPTIONS: list[dict[str, object]] = [{}, {"bits": 8}, {"attack": "sign-flip", "attack_share": 0.5}]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "quantised", "attacked"])
@pytest.mark.parametrize("devices", [4, 6])
def test_a_task_for_another_number_of_devices_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], devices: int
) -> None:
    module = f"five_devices_{devices}_{len(options)}"
    (tmp_path / f"{module}.py").write_text("make = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(importlib.import_module(module), "make", lambda config: FiveDevices())
    config = CONFIG.with_options(devices=devices, **options)
    with pytest.raises(UserError, match=f"task FiveDevices: .* 5 devices, and the schedule has {devices}"):
        run(config, tmp_path / "run", task=FiveDevices())  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"task {module}:make: .* 5 devices, and the schedule has {devices}"):
        run(config.with_options(task=f"{module}:make"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_state_before_sys_exit_is_saved(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run(CONFIG, tmp_path / "run", task=Exits(), workers=1)  # type: ignore[arg-type]
    folder = RunFolder.open(tmp_path / "run")
    assert folder.status == "interrupted"
    saved, _ = folder.checkpoints.load()
    assert saved is not None
    assert saved.rounds > 0


def test_what_is_no_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="config = a dict"):
        run({"devices": 4}, tmp_path / "run")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="channel = an int: must be a Scenario"):
        RunConfig(channel=3)  # type: ignore[arg-type]
