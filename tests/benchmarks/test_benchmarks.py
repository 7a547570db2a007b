"""Every benchmark starts, and runs at a tiny size where that takes no server, cluster or installation."""

import importlib
import re
import sys
from importlib.util import find_spec
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from slotwise import Scenario

ROOT = Path(__file__).parents[2]
LIBRARIES = ("published_numbers", "random_commands", "rounds_to_accuracy", "tcp_proxy", "udp_proxy")
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem not in LIBRARIES)


class Tiny(NamedTuple):
    """Arguments and constants with which a benchmark takes seconds; limits of speed are lifted."""

    arguments: str = ""
    constants: dict[str, Any] = {}  # noqa: RUF012


SMALL = Scenario(devices=12, group_size=3, compute_slots=5)
QUICK = {
    "episode": Tiny("--repeats 1", {"ROUNDS": 3, "REQUIRED": 0}),
    "gym_uplinks": Tiny(
        "--repeats 1", {"COMMON": {"devices": 20, "schedule": "async", "deadline": 300}, "REQUIRED": 0}
    ),
    "bounded_fleets": Tiny("--write"),  # does not write what is there already
    "just_in_time": Tiny("--fleets 1", {"DEADLINE": 300}),
    "month": Tiny("--days 0.002", {"HOUR": 60}),
    "radio_delay": Tiny(
        constants={
            "SEEDS": range(1),
            "QUANTILES": (0.25,),
            "COMMON": {"deadline": 1_000, "devices": 20, "group_size": 2, "radio_link": "rate-adaptive"},
        }
    ),
    "recommend_cases": Tiny("convex"),
    "schedule": Tiny(
        "--repeats 1",
        {
            "SMALL": SMALL,
            "SMALL_ROUNDS": 20,
            "LARGE": SMALL,
            "LARGE_ROUNDS": 20,
            "REQUIRED": {},
            "MEMORY_LIMIT": inf,
        },
    ),
    "schedule_cases": Tiny("--devices 50 --repeats 1 --only absences"),
}
ONE_THREAD = {"THREADS": 1}  # those of PyTorch wait for each other on a busy machine
SLOW = {  # they load data, compile networks or start processes
    "attacks": Tiny(
        "--deadline 60 --only none",
        {"OPTIONS": {"devices": 10, "partition": "iid", "compute_slots": 10, "samples_per_device": 10}},
    ),
    "common_job": Tiny("--rounds 1"),
    "curvature": Tiny("--rounds 0 1 --steps 1"),
    "fading": Tiny(
        "--repeats 1 --json",
        {
            "DEVICES": 20,
            "DEADLINE": 2_000,
            "CHANNEL": Scenario(devices=20, group_size=4, compute_slots=5, deadline=2_000),
            "COHERENCE": (10,),
            "SIZES": (10, 20, 30),
            "LOSSES_DEADLINE": 500,
            "REQUIRED_SPEED": 0,
            "REQUIRED_FLATNESS": 0,
            "MEMORY_LIMIT": inf,
        },
    ),
    "fedavg_in_torch": Tiny("--most 1 --shards"),
    "models": Tiny("--repeats 1 --seconds 0.01", {"MOST_LOAD": inf, **ONE_THREAD}),
    "peers": Tiny("--only slotwise --rounds 1"),
    "sweep": Tiny("--points 1 --deadline 60 --workers 1 --repeats 1", {"LIMIT": inf}),
    "torch_models": Tiny("--repeats 1 --rounds 1 --models cnn", ONE_THREAD),
    "update_error": Tiny("--rounds 3 --errors 50 --gradients 50"),
    "whole_job": Tiny("--studies mnist --deadline 200 --runs 1 --workers 1"),
}
# What these need: a broker, Chromium, a cluster, other packages, an installation or minutes to compile;
# fuzz has a test in cli/, memory_rules one in docs/.
NOT_RUN = (
    "chaos",
    "cifar10_from_npm",
    "device_footprint",
    "explorer",
    "flower",
    "fuzz",
    "memory_rules",
    "mqtt",
    "scale",
    "step_parts",
    "validation",
    "workers",
)


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if name == "flower" and find_spec("flwr") is None:
        pytest.skip("needs Flower")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    # A file of the same name, as tests/web/serving.py or the package flower, must not be taken instead.
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return module


def run(module: ModuleType, arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the exit code of a benchmark."""
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *arguments.split()])
    try:
        return int(module.main() or 0)
    except SystemExit as ended:
        return int(ended.code or 0)


def run_tiny(name: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> int:
    module = load(name, monkeypatch)
    for constant, value in tiny.constants.items():
        monkeypatch.setattr(module, constant, value)
    return run(module, tiny.arguments, monkeypatch)


def test_every_benchmark_is_listed_here() -> None:
    assert sorted([*QUICK, *SLOW, *NOT_RUN, "radio_studies"]) == SCRIPTS


@pytest.mark.parametrize("name", QUICK)
def test_a_benchmark_runs_at_a_tiny_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_tiny(name, QUICK[name], monkeypatch) == 0


def test_the_tables_of_the_bound_on_updates_are_made_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("bounded_fleets", monkeypatch)
    page, rows = module.PAGE.read_text(encoding="utf-8"), module.read()
    assert set(rows) == set(module.cases())
    assert len(module.SEEDS) >= 3
    assert module.with_tables(page, rows) == page


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_benchmark_that_trains_runs_at_a_tiny_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_tiny(name, SLOW[name], monkeypatch) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_RUN)
def test_a_benchmark_that_needs_more_than_this_machine_has_starts(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(load(name, monkeypatch), "--help", monkeypatch) == 0
    assert "usage" in capsys.readouterr().out


@pytest.mark.slow
def test_the_radio_studies_run_at_a_tiny_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("radio_studies", monkeypatch)
    for name in module.STUDIES:
        text = (module.SPECS / f"{name}.toml").read_text(encoding="utf-8")
        short = re.sub(r"(?m)^deadline = .*", "deadline = 600", text).replace("[0, 1, 2]", "[0]")
        # Two of the numbers on an axis.
        short = re.sub(r"(?m)^([a-z-]+ = \[[\d.]+, [\d.]+), .*\]", r"\1]", short)
        (tmp_path / f"{name}.toml").write_text(short, encoding="utf-8")
    monkeypatch.setattr(module, "SPECS", tmp_path)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    assert run(module, f"--runs {tmp_path / 'runs'} --workers 1", monkeypatch) == 0
    assert {path.stem for path in (tmp_path / "results").iterdir()} == set(module.STUDIES)
