"""docs/results/recommend says what its benchmark prints of the recorded runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results/recommend"


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_table_is_the_one_that_the_benchmark_prints() -> None:
    told = (RESULTS / "README.md").read_text(encoding="utf-8").split("```\n")[2]
    folders = ["grid", "seed1", "seed2"]
    printed = subprocess.run(
        [sys.executable, "benchmarks/recommend.py", *(str(RESULTS / name) for name in folders)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    ).stdout
    assert lines(printed) == lines(told)


def test_the_steps_are_those_of_the_recorded_answers() -> None:
    told = (RESULTS / "README.md").read_text(encoding="utf-8")
    for seed in (1, 2):
        cost = json.loads((RESULTS / f"seed{seed}/recommendation.json").read_text())["cost"]
        assert f"{cost['search_steps']:,} (seed {seed})" in told
        assert f"of {cost['grid_steps']:,} SGD steps" in told
