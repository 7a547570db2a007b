"""docs/recommend.md says what the benchmark prints of the stored curves."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_table_is_the_one_that_the_benchmark_prints_and_every_answer_is_right() -> None:
    page = (ROOT / "docs/recommend.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ python (benchmarks/recommend_cases.py)\n```\n```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    command, told = shown.groups()
    printed = subprocess.run(
        [sys.executable, *command.split()],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    ).stdout
    assert lines(printed) == lines(told)
