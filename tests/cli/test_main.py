import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from slotwise.cli import main

HEAVY = ("numba", "matplotlib", "plotly", "torch", "cyclopts", "rich", "pooch")


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["slotwise", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = python(f"import sys, slotwise; print([name for name in {HEAVY} if name in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("arguments", [["fly"], ["fly", "--devices", "3"]])
def test_an_unknown_command_is_one_line_and_code_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, monkeypatch) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"slotwise: [^\n]*fly[^\n]*\n", captured.err)


def test_an_unknown_option_is_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--fast"], monkeypatch) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"slotwise: [^\n]*--fast[^\n]*\n", captured.err)


def test_the_version_is_the_installed_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--version"], monkeypatch) == 0
    assert capsys.readouterr() == (f"slotwise {version('slotwise')}\n", "")


def test_the_package_is_a_program_too() -> None:
    command = [sys.executable, "-m", "slotwise", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"slotwise {version('slotwise')}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["plan", "--help"], ["plan", "-h"]])
def test_help_is_printed_and_is_no_mistake(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, monkeypatch) == 0
    captured = capsys.readouterr()
    assert "Usage: slotwise" in captured.out
    assert captured.err == ""


def test_help_lists_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"], monkeypatch)
    out = capsys.readouterr().out
    assert "plan" in out
    assert "timeline" in out


@pytest.mark.parametrize("command", ["plan --devices 5040 --json", "plan --devices 5040", "train --help"])
def test_a_reader_that_leaves_early_is_no_mistake(command: str) -> None:
    shell = f"{sys.executable} -c 'import slotwise.cli; slotwise.cli.main()' {command} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
