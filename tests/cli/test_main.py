import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from slotwise.cli.app import COMMANDS, build_app

HEAVY = ("numba", "matplotlib", "plotly", "torch", "cyclopts", "rich", "pooch")


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = python(f"import sys, slotwise; print([name for name in {HEAVY} if name in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("arguments", "told"), [("fly", "fly"), ("fly --devices 3", "fly"), ("--fast", "--fast")]
)
def test_an_unknown_command_or_option_is_one_line_and_code_2(slotwise, arguments: str, told: str) -> None:
    code, out, err = slotwise(*arguments.split())
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"slotwise: [^\n]*{told}[^\n]*\n", err)


def test_the_version_is_the_installed_one_and_the_package_is_a_program_too(slotwise) -> None:
    assert slotwise("--version") == (0, f"slotwise {version('slotwise')}\n", "")
    command = [sys.executable, "-m", "slotwise", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"slotwise {version('slotwise')}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["plan", "--help"], ["plan", "-h"]])
def test_help_is_printed_and_is_no_mistake(slotwise, arguments: list[str]) -> None:
    code, out, err = slotwise(*arguments)
    assert (code, err) == (0, "")
    assert "Usage: slotwise" in out
    if "plan" not in arguments:
        assert "plan" in out
        assert "timeline" in out


def commands() -> Iterator[tuple[str, ...]]:
    """Yield every command, and those of radio, data and others that have some of their own."""
    for name in COMMANDS:
        command = build_app(name)[name]
        inner = [one for one in command if not one.startswith("-")]
        yield from [(name, one) for one in inner] or [(name,)]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_help_texts_are_english(slotwise, command: tuple[str, ...]) -> None:
    _, out, _ = slotwise(*command, "--help")
    assert not re.search(r"Annotated|Range\(|least=|LARGEST|<class", " ".join(out.split()))


@pytest.mark.parametrize("command", ["plan --devices 5040 --json", "plan --devices 5040", "train --help"])
def test_a_reader_that_leaves_early_is_no_mistake(command: str) -> None:
    shell = f"{sys.executable} -c 'import slotwise.cli; slotwise.cli.main()' {command} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
