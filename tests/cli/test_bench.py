import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise import bench as suite
from slotwise.bench import LOOP, SGEMM, TWO, Results

Cli = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_way_is_measured_in_one_run(slotwise: Cli) -> None:
    code, out, _ = slotwise("bench", "--repeats", 1, "--seconds", 0.2, "--json")
    assert code == 0
    figures = json.loads(out)
    assert all(row["rate"] > 0 for row in figures["ways"])


@pytest.mark.parametrize(("load", "warns"), [(0.5, True), (0.02, False), (None, False)])
def test_a_busy_machine_is_reported(
    slotwise: Cli, monkeypatch: pytest.MonkeyPatch, load: float | None, warns: bool
) -> None:
    measured = Results({SGEMM: [100.0], TWO: [400.0]}, load)
    monkeypatch.setattr(suite, "measure_suite", lambda *_: measured)
    code, out, err = slotwise("bench", "--repeats", 1, "--json")
    assert code == 0
    assert json.loads(out)["other_load"] == load
    assert ("warning" in err) == warns


@pytest.mark.parametrize("loop", [[50.0], None], ids=["torch", "no torch"])
def test_the_table_has_a_row_for_each_way(
    slotwise: Cli, monkeypatch: pytest.MonkeyPatch, loop: list[float] | None
) -> None:
    rates = {SGEMM: [100.0], TWO: [400.0]} | ({} if loop is None else {LOOP: loop})
    monkeypatch.setattr(suite, "measure_suite", lambda *_: Results(rates, 0.0))
    code, out, _ = slotwise("bench", "--repeats", 1)
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    (sgemm,), (two,) = ([line for line in lines if line.startswith(name)] for name in (SGEMM, TWO))
    assert sgemm.removeprefix(SGEMM).split() == ["100"]
    assert two.removeprefix(TWO).split()[:2] == ["400", "–" if loop is None else "8.00×"]
    assert (f"8.00×  {TWO} / {LOOP}" in out) == (loop is not None)


def test_every_measurement_moves_the_progress_bar(slotwise: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "_ways", lambda seconds: {SGEMM: lambda: 100.0, TWO: lambda: 10 * seconds})
    code, out, _ = slotwise("bench", "--repeats", 2, "--seconds", 3, "--json")
    assert code == 0
    assert [row["rate"] for row in json.loads(out)["ways"]] == [100.0, 30.0]


def test_the_common_job_prints_one_json_line() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "common_job.py"), "--rounds", "2", "--threads", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert (figures["peer"], figures["rounds"], figures["sgd_steps"]) == ("slotwise", 2, 100)
    names = {"peer", "version", "rounds", "sgd_steps", "seconds", "steps_per_s", "startup_s", "peak_rss_mb"}
    assert set(figures) == names
