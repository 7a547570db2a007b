import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotwise import Scenario
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs import run as train
from slotwise.runs.bound_case import estimate_constants
from slotwise.theory.bound import Constants, Setting, corrected, published, round_robin

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]

VALUES = {"smoothness": 10.0, "gradient_noise": 5.0, "noise_growth": 2.0, "heterogeneity": 4.0}
VALUES |= {"initial_gap": 2.3, "initial_gradient2": 1.0}
GIVEN = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in VALUES.items())
TINY = {"devices": 4, "group_size": 2, "samples_per_device": 12, "compute_slots": 2, "deadline": 60}
TINY |= {"local_steps": 2, "batch_size": 4, "channels": (2,), "hidden": ()}


@pytest.fixture
def run(slotwise: Run) -> Run:
    """``slotwise bound`` with these arguments."""
    return lambda arguments: slotwise("bound", *arguments.split())


def answer(run: Run, arguments: str) -> dict[str, Any]:
    code, out, _ = run(f"{arguments} --json")
    assert code == 0
    return dict(json.loads(out))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a tiny network."""
    path = tmp_path_factory.mktemp("bound") / "run"
    parameters = RunConfig.from_options({**TINY, "schedule": "idfl"})
    train(parameters, path)
    return path


@pytest.fixture(scope="module")
def estimated(trained: Path) -> dict[str, Any]:
    """What --estimate finds there."""
    return estimate_constants(RunFolder.open(trained)).as_dict()


def test_the_json_has_the_bounds_of_the_theory_its_constants_and_its_case(run: Run) -> None:
    scenario = Scenario(devices=100, group_size=10, compute_slots=50, deadline=50_000)
    case = Setting(scenario=scenario, rounds=4540, batch_size=64, learning_rate=0.01)
    constants = Constants(**VALUES)
    found = answer(run, GIVEN)
    assert found["published"] == published(constants, case).as_dict()
    assert found["corrected"] == corrected(constants, case).as_dict()
    assert found["round_robin"] == round_robin(constants, case).as_dict()
    assert found["constants"] == {**VALUES, "device_smoothness": None}
    assert (found["setting"]["rounds"], found["setting"]["staleness"]) == (4540, 9)
    assert (found["estimated"], found["measured"]) == ([], None)


def test_delay_and_rounds_are_those_of_the_theory_or_given(run: Run) -> None:
    setting = answer(run, f"{GIVEN} --schedule idfl")["setting"]
    assert (setting["delay"], setting["staleness"]) == (4, 5)
    assert answer(run, f"{GIVEN} --schedule idfl --delay 2")["setting"]["delay"] == 2
    assert answer(run, f"{GIVEN} --rounds 100")["setting"]["rounds"] == 100


def test_the_table_has_the_three_bounds_side_by_side_and_fits_80_columns(run: Run) -> None:
    found = answer(run, GIVEN)
    _, out, _ = run(GIVEN)
    row = next(line for line in out.splitlines() if line.strip().startswith("bound"))
    values = [found[name]["value"] for name in ("published", "corrected", "round_robin")]
    assert row.split()[-3:] == [f"{value:.4g}" for value in values]
    _, out, _ = run(f"{GIVEN} --learning-rate 1e-4")
    assert "…" not in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_table_says_why_a_theorem_does_not_cover_the_case(run: Run) -> None:
    _, out, _ = run(f"{GIVEN} --learning-rate 0.01 --rounds 5")
    words = " ".join(out.split())
    assert "corrected does not cover it: step size 0.01 is above its limit = 0.00755" in words
    assert "published does not cover it: K = 4 is below 2G = 20" in words


def test_a_picture_is_written_where_asked(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bound.svg"
    code, _, err = run(f"{GIVEN} --out {path}")
    assert (code, err) == (0, f"wrote {path}\n")
    assert path.read_text().startswith("<?xml")


def test_an_estimate_has_every_constant_the_case_of_the_run_and_what_was_measured(
    estimated: dict[str, Any],
) -> None:
    assert sorted(estimated["constants"]) == estimated["estimated"]
    assert all(value > 0 for value in estimated["constants"].values())
    setting = estimated["setting"]
    assert (setting["devices"], setting["group_size"], setting["batch_size"]) == (4, 2, 4)
    assert setting["rounds"] == RunConfig.from_options({**TINY, "schedule": "idfl"}).simulate().rounds
    measured = estimated["measured"]
    assert len(measured["rounds"]) == len(measured["gradient2"])
    assert min(measured["gradient2"]) <= measured["mean"] <= max(measured["gradient2"])


def test_given_constants_win_over_estimates(run: Run, trained: Path) -> None:
    found = answer(run, f"--estimate {trained} --smoothness 77 --rounds 2 --quiet")
    assert found["constants"]["smoothness"] == 77
    assert "smoothness" not in found["estimated"]
    assert found["setting"]["rounds"] == 2


def test_the_table_of_an_estimate_says_what_its_numbers_are(run: Run, trained: Path) -> None:
    _, out, _ = run(f"--estimate {trained} --rounds 2 --learning-rate 0.001 --quiet")
    words = " ".join(out.split())
    assert "the true constants are at least as large" in words
    assert "The run takes H = 2 steps per update, the theorem one" in words
    assert "Trained for 2 of the run's" in words
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("network", "smooth"), [({"network": "logistic"}, True), ({"network": "mlp", "hidden": (2,)}, False)]
)
def test_a_network_with_relu_has_a_note_that_it_has_no_finite_smoothness(
    tmp_path: Path, network: dict[str, Any], smooth: bool
) -> None:
    options = {name: value for name, value in TINY.items() if name not in ("channels", "hidden")}
    parameters = RunConfig.from_options({**options, **network})
    case = estimate_constants(RunFolder.create(tmp_path / "run", parameters), rounds=2)
    assert any("no finite L" in note for note in case.notes) is not smooth


def test_a_run_of_random_participation_is_refused(run: Run, tmp_path: Path) -> None:
    parameters = RunConfig.from_options({**TINY, "schedule": "sync", "participation": "random"})
    RunFolder.create(tmp_path / "run", parameters)
    code, _, err = run(f"--estimate {tmp_path / 'run'}")
    assert code == 2
    assert "participation" in err
