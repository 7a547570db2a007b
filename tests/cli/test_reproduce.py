"""`slotwise reproduce` from start to end: a tiny quick look, repeated, interrupted and refused."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from slotwise.runs import RunFolder

COMMAND = [sys.executable, "-c", "import slotwise.cli; slotwise.cli.main()", "reproduce"]
TINY = ["--quick", "--deadline", "500"]  # the first evaluation after the initial one
Outcome = tuple[int, str, str]
Call = Callable[..., Outcome]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduce") / "out"
    done = subprocess.run(
        [*COMMAND, *TINY, "--out", str(out)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"report: {out / 'report.html'}\n"
    assert "mnist-async-S5-T500-seed1: loss" in done.stderr
    return out


@pytest.fixture
def call(slotwise: Call) -> Call:
    """Calls ``slotwise reproduce``; gives exit code, stdout and stderr."""
    return partial(slotwise, "reproduce")


def test_the_tuned_study_writes_its_page_if_nothing_is_left_to_train(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotwise.paper.tuned_runs.needed", lambda *_: ())
    out = tmp_path / "tuned"
    assert call("tuned", "--out", out) == (0, f"page: {out / 'tuned.md'}\n", "")
    assert "![Training loss of the pilots" in (out / "tuned.md").read_text(encoding="utf-8")
    assert not (out / "runs").exists()
    code, _, error = call("mnist", "--out", out)
    assert (code, "reproduce tuned" in error or "another folder" in error or "new or empty" in error) == (
        2,
        True,
    )


def test_a_quick_look_leaves_runs_figures_and_a_report(finished: Path) -> None:
    names = sorted(path.name for path in (finished / "runs").iterdir())
    assert names == sorted(
        f"mnist-{run}-T500-seed1"
        for size in (5, 10)
        for run in (f"sync-S{size}-round-robin", f"async-S{size}", f"idfl-S{size}")
    )
    assert {RunFolder.open(finished / "runs" / name).status for name in names} == {"finished"}
    figures = {path.name for path in (finished / "figures").iterdir()}
    assert {
        f"{name}.{kind}" for name in ("schedules-mnist", "beginnings") for kind in ("png", "pdf")
    } <= figures
    assert {"timeline-async.svg", "timeline-idfl.png"} <= figures


def test_the_report_compares_what_was_trained_and_has_the_verdicts_of_full_length_runs(
    finished: Path,
) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    first = text[: text.index("<nav")]
    assert "waits for a fresher model whenever waiting costs no slot" in first
    assert "8 of 17 hold, 9 do not, 0 not decided" in first
    assert 'id="figure-schedules-mnist"' in first
    # All 12 to the bit, or, on another processor, nearly.
    assert "first 500 slots of 6 runs" in first
    assert "badge different" not in first
    order = [
        text.index(f'<section id="{name}"') for name in ("here", "timeline", "table1", "claims", "finals")
    ]
    assert order == sorted(order)
    assert "8 held, 9 not held. MNIST, T=50,000" in text
    assert "Shorter than in the paper" not in text
    for number in (24976, 8326, 4541, 1922, 980, 332, 49999, 33333, 16667, 9091, 4001):
        assert text.count(f'<td class="number">{number}</td>') == 2
    assert "6 of 6 runs are finished" in text
    assert "--quick --deadline 500" in text
    assert "slotwise reproduce mnist --out runs/paper --seeds 3" in text


def test_a_second_time_nothing_is_trained_and_nothing_drawn_again(finished: Path, call: Call) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.glob("runs/*/*")}
    figures = {path: path.stat().st_mtime_ns for path in finished.glob("figures/*.p*")}
    code, out, err = call(*TINY, "--out", finished)
    assert (code, out, err) == (0, f"report: {finished / 'report.html'}\n", "")
    assert before == {path: path.stat().st_mtime_ns for path in finished.glob("runs/*/*")}
    assert figures == {path: path.stat().st_mtime_ns for path in finished.glob("figures/*.p*")}


def test_the_report_has_the_air_time_and_with_powers_the_joules_of_every_schedule(
    finished: Path, call: Call
) -> None:
    page = finished / "report.html"
    assert "MNIST: N=100, T=50,000" in page.read_text(encoding="utf-8")
    assert ">joules<" not in page.read_text(encoding="utf-8")
    watts = ["--power-computing", "2", "--power-sending", "1", "--power-receiving", "0.5"]
    assert call(*TINY, "--out", finished, *watts)[0] == 0
    text = page.read_text(encoding="utf-8")
    assert ">joules<" in text
    assert "--power-computing 2.0 --power-sending 1.0 --power-receiving 0.5" in text


def test_a_run_that_is_lost_is_trained_again_to_the_same_model(finished: Path, call: Call) -> None:
    run = finished / "runs" / "mnist-sync-S5-round-robin-T500-seed1"
    model = json.loads((run / "run.json").read_text())["model_sha256"]
    shutil.rmtree(run)
    code, _, err = call("schedules-mnist", *TINY, "--out", finished)
    assert code == 0
    assert f"{run.name}: loss" in err
    assert json.loads((run / "run.json").read_text())["model_sha256"] == model


@pytest.mark.parametrize(
    "options", [["--quick", "--deadline", "600"], ["--quick"], ["mnist", "--deadline", "500"]]
)
def test_other_settings_are_refused(finished: Path, call: Call, options: list[str]) -> None:
    code, out, err = call(*options, "--out", finished)
    assert (code, out) == (2, "")
    assert err.startswith(f"slotwise: --out {finished}: must be another folder")


def test_a_damaged_run_is_reported_in_one_line(tmp_path: Path, call: Call) -> None:
    run = tmp_path / "out" / "runs" / "mnist-async-S1-T160-seed0"
    assert call("table1", "--out", tmp_path / "out")[0] == 0
    run.mkdir(parents=True)
    (run / "run.json").write_text("{")
    code, _, err = call("async-mnist", "--deadline", "160", "--out", tmp_path / "out")
    assert (code, err.count("\n")) == (2, 1)
    assert "run.json: damaged" in err


def test_cifar10_runs_without_data_are_skipped(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "cache"))
    code, _, err = call("cifar10", "--deadline", "100", "--out", tmp_path / "out")
    assert code == 0
    hint = "slotwise data fetch cifar10"
    assert err.startswith("skipped 8 runs")
    assert hint in err
    assert hint in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_an_interrupt_ends_cleanly_and_the_next_call_resumes(tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    options = ["mnist", "--quick", "--deadline", "500", "--out", str(out)]
    running = subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 240
    while not list(out.glob("runs/*/run.json")) and time.monotonic() < limit:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=240)
    assert running.returncode == 130
    assert "interrupted" in err
    assert (out / "report.html").is_file()
    code, _, err = call(*options)
    assert code == 0
    assert "seed1: loss" in err
    assert {RunFolder.open(path).status for path in (out / "runs").iterdir()} == {"finished"}
