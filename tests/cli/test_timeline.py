import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from slotwise.schedule import Timeline

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def run(slotwise: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Calls ``slotwise timeline`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(slotwise, "timeline")


def test_the_defaults_are_the_worked_example_and_slots_choose_a_window(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "device 5  w0▒▒▒▒··················▲▲▲   ▼▼▼w3▒▒▒▒············▲▲▲   ▼▼▼\n" in out
    code, out, _ = run("--slots", "3:9")
    assert code == 0
    assert "slot      3  4  5  6  7  8\n" in out


def test_a_pipe_gets_plain_text_and_an_old_terminal_ascii(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import slotwise.cli; slotwise.cli.main()", "timeline"]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, encoding="ascii", env=environment, check=True)
    assert "device 6  w0####....................." in done.stdout


def test_json_is_the_whole_timeline_beside_a_picture_too(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("--json")
    assert code == 0
    assert Timeline.from_json(out).rounds == 6
    _, out, _ = run("--json", "--out", "a.html", "--slots", "0:5")
    assert json.loads(out)["schedule"] == "async"
    assert (tmp_path / "a.html").exists()


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.html"])
def test_a_picture_is_written_and_named(run: Run, tmp_path: Path, name: str) -> None:
    assert run("--out", name) == (0, f"wrote {name}\n", "")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_bad_path_is_refused_before_the_schedule_is_played(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotwise.runs.config.RunConfig.simulate", None)
    code, _, err = run("--out", "no/a.svg")
    assert code == 2
    assert "there is no folder" in err
