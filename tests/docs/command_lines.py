"""Commands in the documentation: splitting them, and parsing or running them in this process."""

import re
import shlex
import tomllib
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from slotwise.cli.app import build_app, run
from slotwise.runs import RunConfig

ROOT = Path(__file__).parents[2]
# Commands that compute a schedule and print; all others train, serve, wait or fetch, and are parsed only.
QUICK = ("plan", "timeline", "radio", "bound", "enroll")
# Programs that are not ours: shown beside our commands, never run.
FOREIGN = ("python3", "source", ".", "cd", "mkdir", "git", "openssl", "chmod", "mosquitto", "docker")


@dataclass(frozen=True)
class CommandLine:
    """One command with its arguments; settings of the environment before it are left out."""

    text: str
    arguments: tuple[str, ...]

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return Path(self.arguments[0]).name or self.arguments[0]


def command_lines(text: str, *, prompt: bool) -> list[CommandLine]:
    """Return the commands of a block: after each prompt, or without prompts each line."""
    found = []
    for line in _joined(text):
        if prompt and not line.startswith("$ "):
            continue
        for part in _parts(line.removeprefix("$ ")):
            while part and re.fullmatch(r"\w+=.*|sudo|nice", part[0]):
                part.pop(0)
            if part:
                found.append(CommandLine(shlex.join(part), tuple(part)))
    return found


def output_lines(text: str) -> list[str]:
    """Return what a block with prompts shows as output."""
    return [line for line in _joined(text) if not line.startswith("$ ")]


def _joined(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def _parts(line: str) -> list[list[str]]:
    """Split a line at && and pipes; a redirection and a last & are dropped, and so is an ellipsis."""
    line = re.sub(r"\$\([^)]*\)", "VALUE", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    tokens = iter(lexer)
    for token in tokens:
        if token in {"&&", "|", ";", "&"}:
            parts.append([])
        elif token in {">", ">>", "<"}:
            next(tokens)
        elif token != "…":
            parts[-1].append(token)
    return [part for part in parts if part]


def check_slotwise(line: CommandLine) -> None:
    """Parse a slotwise command with the real parser; options of a run also have to go together."""
    arguments = list(line.arguments[1:])
    app = build_app(arguments[0] if arguments else None)
    command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    assert callable(command)
    assert set(bound.arguments) <= set(signature(command).parameters)
    if arguments[0] in {"train", "serve"}:
        _check_options(bound.arguments)


def _check_options(given: dict[str, Any]) -> None:
    if given.get("resume") is not None or given.get("config") is not None:
        return
    options = {
        key: value for key, value in given.items() if key in RunConfig.known_options() and value is not None
    }
    named = [options.get(key) for key in ("fleet_file", "data_folder", "radio_trace")]
    if all(value is None or Path(value).exists() for value in named):
        RunConfig.from_options(options)


def run_slotwise(line: CommandLine) -> int:
    """Run a slotwise command in this process and return its exit code."""
    return run(list(line.arguments[1:]))


def check_pip(line: CommandLine) -> None:
    """Check that `pip install` names packages of this repository and extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for argument in line.arguments[2:]:
        if match := re.fullmatch(r"(?:\.|slotwise/?)(?:\[([\w,]+)\])?", argument):
            extras = (match[1] or "").split(",") if match[1] else []
            assert set(extras) <= set(project["optional-dependencies"]), argument


def check_make(line: CommandLine) -> None:
    """Check that `make` names targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = {argument for argument in line.arguments[1:] if "=" not in argument}
    assert named <= targets, named - targets


def check_script(line: CommandLine) -> None:
    """Check that a script of the repository exists and knows the flags that it is called with."""
    script = next(argument for argument in line.arguments if argument.endswith(".py"))
    source = (ROOT / script).read_text(encoding="utf-8")
    flags = [argument.partition("=")[0] for argument in line.arguments if argument.startswith("--")]
    assert [flag for flag in flags if f'"{flag}"' not in source] == []


CHECKS = {"slotwise": check_slotwise, "pip": check_pip, "make": check_make}
